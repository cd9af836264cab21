-- Keep the answer with the key that this transaction took.
WITH metered AS (
    INSERT INTO gnomon.usage AS u (tenant_id, day, session, held_bytes)
    VALUES (
        $1, (SELECT (gnomon.now() AT TIME ZONE 'UTC')::date), pg_backend_pid(),
        200 + octet_length($3::json::text)
    )
    ON CONFLICT (tenant_id, day, session) DO UPDATE
    SET held_bytes = u.held_bytes + excluded.held_bytes
)
UPDATE gnomon.idempotency SET answer = $3 WHERE tenant_id = $1 AND key = $2
