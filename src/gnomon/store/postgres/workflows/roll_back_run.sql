-- Say that a run is to be rolled back; a chore ends its tasks, and then runs the compensations. Where it
-- had ended already, that is all.
WITH run AS (
    UPDATE gnomon.workflow_run
    SET state = 2, reason = $3, interrupts = interrupts OR $4, paused = false, held = false,
        finished_at = NULL
    WHERE tenant_id = $1 AND id = $2 AND state NOT IN (2, 13)
    RETURNING id
)
UPDATE gnomon.workflow_node AS n SET step = 1
FROM run AS r
WHERE n.tenant_id = $1 AND n.task_id = r.id AND n.decided
