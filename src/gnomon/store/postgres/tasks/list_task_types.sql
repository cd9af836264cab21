-- The task types of a tenant that have an entry.
SELECT name, octet_length(schema::text), defaults, created_at, updated_at
FROM gnomon.task_type
WHERE tenant_id = $1
ORDER BY name
