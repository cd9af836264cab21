-- Let nodes start whose turn has come (UNBLOCK -> WAITING). One whose task somebody else holds is
-- left for the next time. $1/$2 the keys, in order.
WITH held AS MATERIALIZED (
    SELECT t.tenant_id, t.id, t.ctid
    FROM unnest((SELECT $1::text[]), (SELECT $2::uuid[])) AS k (tenant_id, id)
    CROSS JOIN LATERAL (
        SELECT task.tenant_id, task.id, task.ctid FROM gnomon.task
        WHERE task.tenant_id = k.tenant_id AND task.id = k.id AND task.state + 0 = 3
        FOR UPDATE SKIP LOCKED
    ) AS t
), moved AS (
    UPDATE gnomon.task AS t
    SET state = 0, due_at = (SELECT gnomon.now())
    FROM held AS h
    WHERE t.ctid = h.ctid
    RETURNING t.tenant_id, t.id, t.due_at, t.lane, t.flow,
        gnomon.is_by_handler(t.target) AS by_handler,
        t.sla_seconds IS NOT NULL OR t.warn_after_seconds IS NOT NULL AS watched
), node AS MATERIALIZED (
    SELECT n.tenant_id, n.task_id
    FROM gnomon.workflow_node AS n
    JOIN held AS h ON n.tenant_id = h.tenant_id AND n.task_id = h.id
    ORDER BY n.tenant_id, n.task_id
    FOR UPDATE OF n
), done AS (
    UPDATE gnomon.workflow_node AS n SET step = 0
    FROM node AS d
    WHERE n.tenant_id = d.tenant_id AND n.task_id = d.task_id
)
SELECT * FROM moved
