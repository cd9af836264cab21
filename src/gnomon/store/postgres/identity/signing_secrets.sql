-- Live webhook secrets of the tenants named, or with null of all, for nodes to sign with.
SELECT id, tenant_id, host, scheme, secret, shared_until, expires_at
FROM gnomon.webhook_secret
WHERE revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > gnomon.now())
    AND ($1::text[] IS NULL OR tenant_id = ANY ($1::text[]))
ORDER BY tenant_id, created_at DESC, id
