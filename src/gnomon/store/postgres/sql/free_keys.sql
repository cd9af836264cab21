-- Give back idempotency keys that this transaction has taken, of requests that were refused.
-- $1 tenants, $2 keys.
DELETE FROM gnomon.idempotency AS i
USING unnest($1::text[], $2::text[]) AS k (tenant_id, key)
WHERE i.tenant_id = k.tenant_id AND i.key = k.key
