-- A task type and its schema.
SELECT name, schema, created_at, updated_at FROM gnomon.task_type WHERE tenant_id = $1 AND name = $2
