-- Remove a tenant, and its keys with it.
DELETE FROM gnomon.tenant WHERE id = $1
