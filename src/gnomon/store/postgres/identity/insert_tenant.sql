-- Create a tenant. Returns nothing where one of this name exists.
INSERT INTO gnomon.tenant (id, plan, weight, quotas, targets_allow, functions, hosts, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, gnomon.now())
ON CONFLICT (id) DO NOTHING
RETURNING *
