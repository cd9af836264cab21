-- Forget a workflow, all its versions. Runs of it go on.
DELETE FROM gnomon.workflow WHERE tenant_id = $1 AND name = $2 RETURNING version
