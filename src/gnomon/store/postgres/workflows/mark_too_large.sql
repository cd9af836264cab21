-- Say that the output of a node was too large to be kept.
UPDATE gnomon.workflow_result SET too_large = true WHERE tenant_id = $1 AND task_id = $2
