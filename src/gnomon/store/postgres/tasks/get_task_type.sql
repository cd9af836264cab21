-- A task type, its schema and its defaults.
SELECT name, schema, defaults, created_at, updated_at
FROM gnomon.task_type
WHERE tenant_id = $1 AND name = $2
