-- Runs that are being cancelled or rolled back, or have just been paused or resumed, from $1 on: the
-- first ones may stand still while they wait for what runs. $2 how many, $3 those that are
-- set aside: they fail.
SELECT r.tenant_id, r.id, r.state, r.paused, r.held, r.interrupts, r.reason
FROM gnomon.workflow_run AS r
WHERE (r.state = 1 OR (r.state = 2 AND NOT r.compensated) OR r.paused <> r.held) AND r.id > $1
  AND r.id <> ALL ($3::uuid[])
ORDER BY r.id
LIMIT $2
