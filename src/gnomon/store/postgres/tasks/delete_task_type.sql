-- Forget the schema and the defaults of a task type.
DELETE FROM gnomon.task_type WHERE tenant_id = $1 AND name = $2 RETURNING name
