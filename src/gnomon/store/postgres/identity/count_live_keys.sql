-- How many live keys a tenant has.
SELECT count(*)
FROM gnomon.api_key
WHERE tenant_id = $1
    AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > gnomon.now())
