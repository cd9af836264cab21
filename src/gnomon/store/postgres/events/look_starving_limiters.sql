-- Limiters that nodes have waited for, without a break, for longer than $1 seconds. At most $2, and $4 of a
-- tenant: the one after the other of each, those that are known first, then those that wait for longest. $3
-- the kind.
-- Leases that wait are few: each names its bucket, which is a probe by key.
SELECT r.tenant_id, r.limiter, r.since
FROM (
    SELECT s.*, c.goes_on, row_number() OVER (
        PARTITION BY s.tenant_id ORDER BY c.goes_on DESC, s.since, s.limiter
    ) AS rank
    FROM (
        SELECT b.tenant_id, b.limiter, min(l.since) AS since
        FROM (
            SELECT bucket, least(permits_since, starts_since) AS since
            FROM gnomon.limit_lease
            WHERE (permits_since IS NOT NULL OR starts_since IS NOT NULL)
              AND seen_at > gnomon.now() - interval '1 minute'
        ) AS l
        CROSS JOIN LATERAL (
            SELECT tenant_id, limiter FROM gnomon.limit_bucket WHERE id = l.bucket OFFSET 0
        ) AS b
        WHERE l.since < gnomon.now() - make_interval(secs => $1::float8)
        GROUP BY b.tenant_id, b.limiter
    ) AS s
    CROSS JOIN LATERAL (
        SELECT EXISTS (
            SELECT FROM gnomon.condition AS c
            WHERE c.kind = $3 AND c.tenant_id = s.tenant_id AND c.key = s.limiter
        ) AS goes_on
        OFFSET 0
    ) AS c
) AS r
WHERE r.rank <= $4
ORDER BY r.rank, r.since
LIMIT $2
