-- A dead letter that never got through its turn takes it again. Gives whether it is one.
UPDATE gnomon.workflow_node SET step = 1
WHERE tenant_id = $1 AND task_id = $2 AND template IS NOT NULL
RETURNING true
