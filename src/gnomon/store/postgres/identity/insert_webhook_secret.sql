-- Store a new webhook secret; without a value, one is made here. $8: the seconds for which the
-- tenant's secrets sign beside it; null where it is the tenant's itself.
INSERT INTO gnomon.webhook_secret (
    id, tenant_id, host, scheme, secret, public_key, created_by, created_at, shared_until
)
VALUES (
    $1, $2, $3, $4, coalesce($5, gnomon.new_webhook_secret()), $6, $7, gnomon.now(),
    gnomon.now() + make_interval(secs => $8::float8)
)
RETURNING id, tenant_id, host, scheme, secret, public_key, created_at, created_by, shared_until,
    expires_at, revoked_at
