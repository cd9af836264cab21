-- Idempotency keys past their time, at most $2 at once, oldest first, from $1 on. Gives how many, and
-- up to when: the next batch begins there, past the dead rows that this one leaves.
WITH expired AS MATERIALIZED (
    SELECT ctid AS place, expires_at
    FROM gnomon.idempotency
    WHERE expires_at >= coalesce($1::timestamptz, '-infinity')
      AND expires_at < (SELECT gnomon.now())
    ORDER BY expires_at
    LIMIT $2::integer
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM gnomon.idempotency WHERE ctid = ANY (ARRAY(SELECT place FROM expired))
)
SELECT count(*) AS removed, max(expires_at) AS reached FROM expired
