-- Runs that are being cancelled, or have just been paused or resumed. $1 how many.
SELECT r.tenant_id, r.id, r.state, r.paused, r.held, r.interrupts, r.reason
FROM gnomon.workflow_run AS r
WHERE r.state IN (1, 2) OR r.paused <> r.held
ORDER BY r.id
LIMIT $1
