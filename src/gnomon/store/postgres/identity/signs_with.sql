-- Whether a value is among a tenant's live webhook secrets.
SELECT FROM gnomon.webhook_secret
WHERE tenant_id = $1
    AND secret = $2
    AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > gnomon.now())
