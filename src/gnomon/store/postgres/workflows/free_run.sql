-- Let the paused tasks of a resumed run wait for their time again (RESUME -> WAITING).
WITH node AS MATERIALIZED (
    SELECT t.ctid
    FROM gnomon.workflow_node AS n
    CROSS JOIN LATERAL (
        SELECT task.ctid FROM gnomon.task
        WHERE task.tenant_id = n.tenant_id AND task.id = n.task_id AND task.state + 0 = 2
        FOR UPDATE SKIP LOCKED
    ) AS t
    WHERE n.tenant_id = $1 AND n.run_id = $2
), freed AS (
    UPDATE gnomon.workflow_run SET held = false WHERE tenant_id = $1 AND id = $2 AND NOT paused
)
UPDATE gnomon.task AS t
SET state = 0, due_at = greatest(t.due_at, (SELECT gnomon.now()))
FROM node AS n
WHERE t.ctid = n.ctid
RETURNING t.tenant_id, t.id, t.due_at, t.lane, t.flow, gnomon.is_by_handler(t.target) AS by_handler
