-- Say that a run is to be cancelled; a chore cancels its tasks.
UPDATE gnomon.workflow_run
SET state = 1, reason = $3, interrupts = interrupts OR $4, paused = false, held = false
WHERE tenant_id = $1 AND id = $2 AND state IN (0, 1)
