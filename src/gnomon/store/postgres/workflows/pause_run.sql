-- Say whether a run is paused; a chore follows with its tasks.
UPDATE gnomon.workflow_run SET paused = $3 WHERE tenant_id = $1 AND id = $2 AND state = 0
