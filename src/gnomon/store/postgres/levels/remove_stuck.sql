-- Note that a task is stuck no longer. $1/$2 the key.
DELETE FROM gnomon.stuck_task WHERE tenant_id = $1 AND task_id = $2 RETURNING reason, since
