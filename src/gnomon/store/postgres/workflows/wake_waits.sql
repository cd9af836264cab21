-- Nodes that have waited for long enough have their turn again. $1 how many at once.
UPDATE gnomon.workflow_node AS n SET step = 1
FROM (
    SELECT w.ctid FROM gnomon.workflow_node AS w
    WHERE w.step = -1 AND w.due_at <= (SELECT gnomon.now())
    ORDER BY w.due_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
) AS w
WHERE n.ctid = w.ctid
RETURNING n.task_id
