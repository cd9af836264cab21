-- A new tenant. Gives nothing where there is one of this name.
INSERT INTO gnomon.tenant (id, plan, weight, quotas, created_at)
VALUES ($1, $2, $3, $4, gnomon.now())
ON CONFLICT (id) DO NOTHING
RETURNING *
