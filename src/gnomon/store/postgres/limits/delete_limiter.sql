-- Remove a limiter. What nodes hold of it is forgotten in time.
DELETE FROM gnomon.limiter WHERE tenant_id = $1 AND name = $2 RETURNING name
