-- Change a tenant.
UPDATE gnomon.tenant
SET plan = $2, weight = $3, quotas = $4, targets_allow = $5, functions = $6, hosts = $7
WHERE id = $1
RETURNING *
