-- The database roles that submit for tenants.
SELECT role::text, tenant_id, task_types, functions, hosts, created_at
FROM gnomon.role_grant
ORDER BY tenant_id, role
