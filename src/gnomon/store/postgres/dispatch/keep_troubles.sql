-- Bring the troubles of a process to these, and forget those of processes that have ended.
-- $1 the process, $2 its name, $3 seconds that this holds for; $4/$5/$6 chores, tenants and subjects;
-- $7 SQLSTATEs, $8 errors, $9 remedies, $10 since, $11 last, $12 counts, $13 when they are retried.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
), old AS MATERIALIZED (
    SELECT t.process, t.chore, t.tenant_id, t.subject
    FROM gnomon.trouble AS t, moment AS m
    WHERE CASE WHEN t.process = $1
        THEN NOT EXISTS (
            SELECT FROM unnest($4::text[], $5::text[], $6::text[]) AS n (chore, tenant_id, subject)
            WHERE n.chore = t.chore AND n.tenant_id = t.tenant_id AND n.subject = t.subject
        )
        ELSE t.known_until < m.now
    END
    FOR UPDATE OF t SKIP LOCKED
), gone AS (
    DELETE FROM gnomon.trouble AS t
    USING old AS o
    WHERE t.process = o.process AND t.chore = o.chore AND t.tenant_id = o.tenant_id
      AND t.subject = o.subject
)
INSERT INTO gnomon.trouble (
    process, chore, tenant_id, subject, name, sqlstate, error, remedy, since, last, count, retry_at,
    known_until
)
SELECT
    $1, n.chore, n.tenant_id, n.subject, $2, n.sqlstate, n.error, n.remedy, n.since, n.last, n.count,
    n.retry_at, m.now + make_interval(secs => $3::float8)
FROM unnest(
    $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::timestamptz[],
    $11::timestamptz[], $12::bigint[], $13::timestamptz[]
) AS n (chore, tenant_id, subject, sqlstate, error, remedy, since, last, count, retry_at), moment AS m
ON CONFLICT (process, chore, tenant_id, subject) DO UPDATE
SET sqlstate = excluded.sqlstate, error = excluded.error, remedy = excluded.remedy,
    last = excluded.last, count = excluded.count, retry_at = excluded.retry_at,
    known_until = excluded.known_until
