-- Remove a limiter. Permits that nodes hold of it are dropped in time.
DELETE FROM gnomon.limiter WHERE tenant_id = $1 AND name = $2 RETURNING name
