-- Give a tenant a webhook secret, unless it has one that lasts. Null makes one.
INSERT INTO gnomon.webhook_secret (id, tenant_id, scheme, secret, created_at)
SELECT $1, t.id, 'v1', coalesce($3, gnomon.new_webhook_secret()), gnomon.now()
FROM gnomon.tenant AS t
WHERE t.id = $2
    AND NOT EXISTS (
        SELECT FROM gnomon.webhook_secret AS s
        WHERE s.tenant_id = t.id
            AND s.host IS NULL
            AND s.revoked_at IS NULL
            AND s.expires_at IS NULL
    )
RETURNING id
