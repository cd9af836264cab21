-- Tenants by name, after a cursor.
SELECT id, plan, weight, quotas, targets_allow, functions, hosts, created_at
FROM gnomon.tenant
WHERE id > $1
ORDER BY id
LIMIT $2
