-- The value of a live v1 secret. A private key is never shown.
SELECT secret
FROM gnomon.webhook_secret
WHERE tenant_id = $1
    AND id = $2
    AND scheme = 'v1'
    AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > gnomon.now())
