-- Give back idempotency keys that this transaction has taken, of requests that were refused.
-- $1 tenants, $2 keys.
DELETE FROM gnomon.idempotency AS i
USING unnest((SELECT $1::text[]), (SELECT $2::text[])) AS k (tenant_id, key)
CROSS JOIN LATERAL (
    SELECT o.ctid FROM gnomon.idempotency AS o WHERE o.tenant_id = k.tenant_id AND o.key = k.key
    OFFSET 0  -- a probe for each, never a join
) AS f
WHERE i.ctid = f.ctid
