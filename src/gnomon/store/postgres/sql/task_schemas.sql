-- All payload schemas, of all tenants.
SELECT tenant_id, name, schema FROM gnomon.task_type
