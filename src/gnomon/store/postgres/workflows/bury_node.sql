-- Make a dead letter of a node whose template does not fit (BLOCKED, GIVE_UP -> DEAD). It keeps its
-- template: a re-drive tries again, and another end has another fence. The row is locked. The
-- trigger of the gate does the rest.
WITH settled AS (
    UPDATE gnomon.workflow_node SET step = 0 WHERE tenant_id = $1 AND task_id = $2
)
UPDATE gnomon.task
SET state = 4, fence = fence + 1, due_at = (SELECT gnomon.now()), last_error = $3,
    fingerprint = NULL
WHERE tenant_id = $1 AND id = $2
