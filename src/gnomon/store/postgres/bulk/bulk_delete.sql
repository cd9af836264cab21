-- Remove many tasks and all that is kept about them; the live ones are locked. Gives those that were
-- there. $3 and $4 the lowest and the highest id, for the partitions.
WITH live AS (
    DELETE FROM gnomon.task WHERE tenant_id = $1 AND id = ANY ($2::uuid[])
    RETURNING id, tenant_id, workflow_run_id
), finished AS (
    DELETE FROM gnomon.task_archive
    WHERE tenant_id = $1 AND id = ANY ($2::uuid[]) AND id >= $3 AND id <= $4
    RETURNING id
), payload AS (
    DELETE FROM gnomon.task_payload
    WHERE tenant_id = $1 AND task_id = ANY ($2::uuid[]) AND task_id >= $3 AND task_id <= $4
), progress AS (
    DELETE FROM gnomon.progress WHERE tenant_id = $1 AND task_id = ANY ($2::uuid[])
), resolution AS (
    DELETE FROM gnomon.resolution WHERE tenant_id = $1 AND task_id = ANY ($2::uuid[])
), executions AS (
    DELETE FROM gnomon.execution
    WHERE tenant_id = $1 AND task_id = ANY ($2::uuid[]) AND task_id >= $3 AND task_id <= $4
), passed AS MATERIALIZED (
    SELECT p.id
    FROM (
        SELECT array_agg(l.tenant_id) AS tenants, array_agg(l.id) AS ids
        FROM live AS l
        WHERE l.workflow_run_id IS NOT NULL
        HAVING count(*) > 0
    ) AS k
    CROSS JOIN LATERAL gnomon.pass_nodes(k.tenants, k.ids, '{}', '{}') AS p
)
SELECT id FROM live WHERE (SELECT count(*) FROM passed) >= 0
UNION ALL
SELECT id FROM finished
