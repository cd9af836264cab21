-- The saved views of a tenant, by name: a bounded number of them.
SELECT name, filter, columns, created_by, created_at
FROM gnomon.saved_view
WHERE tenant_id = $1
ORDER BY name
