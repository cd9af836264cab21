-- A run to be changed: its state, until the transaction ends.
SELECT state, paused FROM gnomon.workflow_run WHERE tenant_id = $1 AND id = $2 FOR UPDATE
