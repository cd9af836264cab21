-- A dead letter that never got through its turn takes it again, and
-- waits anew. Gives whether it is one.
UPDATE gnomon.workflow_node SET step = 1, due_at = NULL
WHERE tenant_id = $1 AND task_id = $2 AND template IS NOT NULL
RETURNING true
