-- Remove a tenant's keys that have ended, but for so many of the newest, and for those that others
-- were made with: a revocation that cascades goes through them.
DELETE FROM gnomon.api_key AS k
WHERE k.tenant_id = $1
    AND k.id IN (
        SELECT id
        FROM gnomon.api_key
        WHERE tenant_id = $1 AND (revoked_at IS NOT NULL OR expires_at <= gnomon.now())
        ORDER BY id DESC
        OFFSET $2
    )
    AND NOT EXISTS (
        SELECT FROM gnomon.api_key AS made WHERE made.tenant_id = $1 AND made.made_by = k.id
    )
