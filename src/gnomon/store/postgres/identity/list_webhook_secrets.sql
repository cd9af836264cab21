-- A tenant's webhook secrets, or one of them, without their values; newest first. `live`: it signs
-- calls. `shared_seconds`: for so long the tenant's own still sign beside it.
SELECT id, tenant_id, host, scheme, public_key, created_at, created_by, shared_until, expires_at,
    revoked_at, revoked_at IS NULL AND (expires_at IS NULL OR expires_at > gnomon.now()) AS live,
    greatest(0, extract(epoch FROM shared_until - gnomon.now()))::float8 AS shared_seconds
FROM gnomon.webhook_secret
WHERE tenant_id = $1 AND ($2::uuid IS NULL OR id = $2)
ORDER BY created_at DESC, id
