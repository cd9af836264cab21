-- The row of a running task that ends with spawns, locked, if its fence and its node are still the ones
-- that it was started with.
SELECT true FROM gnomon.task
WHERE tenant_id = $1 AND id = $2 AND fence = $3 AND node = $4
FOR UPDATE
