-- The definition of a run of no workflow.
SELECT definition FROM gnomon.workflow_run WHERE tenant_id = $1 AND id = $2
