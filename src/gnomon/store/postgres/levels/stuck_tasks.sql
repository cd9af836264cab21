-- The tasks that were told to be stuck, at most $1.
SELECT tenant_id, task_id FROM gnomon.stuck_task ORDER BY tenant_id, task_id LIMIT $1::integer
