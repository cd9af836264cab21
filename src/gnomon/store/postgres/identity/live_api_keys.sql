-- A tenant's live keys of one name, oldest first.
SELECT *
FROM gnomon.api_key
WHERE tenant_id = $1
    AND name = $2
    AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > gnomon.now())
ORDER BY id
