-- Nothing was to be undone: the run has been rolled back.
WITH finish AS (
    UPDATE gnomon.workflow_node SET step = 0 WHERE tenant_id = $1 AND task_id = $2
)
UPDATE gnomon.workflow_run SET state = 13, compensated = true, finished_at = gnomon.now()
WHERE tenant_id = $1 AND id = $2
