-- The live keys among these hashes.
SELECT *
FROM gnomon.api_key
WHERE hash = ANY ($1::bytea[])
    AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > gnomon.now())
