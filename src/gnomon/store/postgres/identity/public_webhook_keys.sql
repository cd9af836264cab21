-- Live public keys of the tenants named, or with null of all. Keys of single hosts are left
-- out: they would tell everybody which hosts a tenant calls.
SELECT id, tenant_id, public_key, expires_at
FROM gnomon.webhook_secret
WHERE public_key IS NOT NULL
    AND host IS NULL
    AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > gnomon.now())
    AND ($1::text[] IS NULL OR tenant_id = ANY ($1::text[]))
ORDER BY tenant_id, created_at DESC, id
