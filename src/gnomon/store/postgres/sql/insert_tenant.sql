-- A new tenant. Gives nothing where there is one of this name.
INSERT INTO gnomon.tenant (id, plan, weight, quotas, targets_allow, created_at)
VALUES ($1, $2, $3, $4, $5, gnomon.now())
ON CONFLICT (id) DO NOTHING
RETURNING *
