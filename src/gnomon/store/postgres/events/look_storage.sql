-- The tenants that store most, at most $1.
SELECT tenant_id, bytes FROM gnomon.tenant_storage ORDER BY bytes DESC LIMIT $1
