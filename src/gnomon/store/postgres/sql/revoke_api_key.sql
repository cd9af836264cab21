-- End a key at once. One that has ended stays as it is.
UPDATE gnomon.api_key
SET revoked_at = coalesce(revoked_at, gnomon.now())
WHERE tenant_id = $1 AND id = $2
RETURNING id
