-- Let a mapped node wait for its elements, $4 of them, and no more for nodes that it comes after ($3 the
-- run): its turn has come. An edge that somebody uses just now still counts.
WITH parent AS MATERIALIZED (
    SELECT p.task_id
    FROM gnomon.workflow_node AS n
    JOIN gnomon.workflow_node AS p
        ON p.tenant_id = n.tenant_id AND p.run_id = $3 AND p.node = ANY (n.after)
    WHERE n.tenant_id = $1 AND n.task_id = $2 AND n.waits > 0
), unused AS MATERIALIZED (
    SELECT x.ctid
    FROM parent AS p
    CROSS JOIN LATERAL (
        SELECT e.ctid FROM gnomon.workflow_edge AS e
        WHERE e.tenant_id = $1 AND e.parent_id = p.task_id AND e.child_id = $2
        FOR UPDATE SKIP LOCKED
    ) AS x
), gone AS (
    DELETE FROM gnomon.workflow_edge AS x USING unused AS u WHERE x.ctid = u.ctid RETURNING 1
)
UPDATE gnomon.workflow_node
SET elements = $4::integer, waits = waits - (SELECT count(*) FROM gone) + $4::integer, succeeded = 0, failed = 0,
    decided = false, step = 1
WHERE tenant_id = $1 AND task_id = $2
