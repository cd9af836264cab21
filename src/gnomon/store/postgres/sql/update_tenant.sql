-- Change what a tenant is given.
UPDATE gnomon.tenant SET plan = $2, weight = $3, quotas = $4 WHERE id = $1 RETURNING *
