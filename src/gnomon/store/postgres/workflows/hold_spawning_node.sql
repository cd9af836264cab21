-- The node of a task that spawns, locked as the gate locks it. counted: it was a dead letter that has
-- counted, and its run has gone on without it.
SELECT n.run_id, n.node, n.on_failure, EXISTS (
    SELECT FROM gnomon.workflow_result AS e
    WHERE e.tenant_id = n.tenant_id AND e.task_id = n.task_id
) AS counted
FROM gnomon.workflow_node AS n
WHERE n.tenant_id = $1 AND n.task_id = $2
FOR UPDATE OF n
