-- A payload that is kept apart from its task.
SELECT payload FROM gnomon.task_payload WHERE tenant_id = $1 AND task_id = $2
