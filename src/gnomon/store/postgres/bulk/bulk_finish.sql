-- As archive_task, for many that this transaction has locked. $3 state, $4 resolution, $5 and $6 the
-- lowest and the highest id, for the partitions, $7 who has resolved them, $8 their note.
WITH gone AS (
    DELETE FROM gnomon.task WHERE tenant_id = $1 AND id = ANY ($2::uuid[])
    RETURNING *, gnomon.removes_payload(keep_payload, $3::integer) AS removed
), payload AS (
    DELETE FROM gnomon.task_payload
    WHERE tenant_id = $1 AND task_id IN (SELECT id FROM gone WHERE removed AND payload_size IS NOT NULL)
      AND task_id >= $5 AND task_id <= $6
), resolved AS (
    INSERT INTO gnomon.resolution (tenant_id, task_id, resolved_at, resolved_by, note, fingerprint)
    SELECT tenant_id, id, gnomon.now(), $7::text, $8::text, fingerprint
    FROM gone
    WHERE $4::text IS NOT NULL
), passed AS MATERIALIZED (
    SELECT p.id
    FROM (
        SELECT array_agg(g.tenant_id) AS tenants, array_agg(g.id) AS ids,
            array_agg($3::smallint) AS states
        FROM gone AS g
        WHERE g.workflow_run_id IS NOT NULL
        HAVING count(*) > 0
    ) AS k
    CROSS JOIN LATERAL gnomon.pass_nodes(k.tenants, k.ids, k.states, '{}') AS p
)
INSERT INTO gnomon.task_archive (
    {carried}, state, started_at, finished_at, attempt, payload_size, payload, payload_removed,
    last_error, resolution
)
SELECT
    {carried}, $3::smallint, started_at, gnomon.now(), attempt,
    CASE WHEN NOT removed THEN payload_size END, CASE WHEN NOT removed THEN payload END,
    removed AND (payload_size IS NOT NULL OR payload IS NOT NULL), last_error, $4::text
FROM gone
WHERE (SELECT count(*) FROM passed) >= 0  -- it is done only where it is asked for
RETURNING id
