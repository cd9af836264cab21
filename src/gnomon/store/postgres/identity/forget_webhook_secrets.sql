-- Remove a tenant's webhook secrets that have ended, but for so many of the newest.
DELETE FROM gnomon.webhook_secret
WHERE tenant_id = $1
    AND id IN (
        SELECT id
        FROM gnomon.webhook_secret
        WHERE tenant_id = $1 AND (revoked_at IS NOT NULL OR expires_at <= gnomon.now())
        ORDER BY created_at DESC, id
        OFFSET $2
    )
