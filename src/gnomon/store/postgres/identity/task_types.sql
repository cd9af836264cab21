-- Payload schemas and defaults of the task types of the tenants named, or with null of all.
SELECT tenant_id, name, schema, defaults FROM gnomon.task_type
WHERE $1::text[] IS NULL OR tenant_id = ANY ($1::text[])
