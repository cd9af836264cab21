-- Idempotency keys past their time.
WITH expired AS MATERIALIZED (
    SELECT tenant_id, key FROM gnomon.idempotency
    WHERE expires_at < (SELECT gnomon.now()) ORDER BY expires_at LIMIT $1
    FOR UPDATE SKIP LOCKED
)
DELETE FROM gnomon.idempotency AS i USING expired AS e
WHERE i.tenant_id = e.tenant_id AND i.key = e.key
