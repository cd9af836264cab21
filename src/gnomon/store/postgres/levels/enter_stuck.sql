-- Note that a task is stuck, if that was not known. $1/$2 the key, $3 why, $4 since when.
INSERT INTO gnomon.stuck_task (tenant_id, task_id, reason, since, found_at)
VALUES ($1, $2, $3, $4, (SELECT gnomon.now()))
ON CONFLICT (tenant_id, task_id) DO NOTHING
RETURNING found_at
