-- Limiters that nodes have waited for, without a break, for longer than $1 seconds. At most $2.
-- Leases that wait are few: each names its bucket, which is a probe by key.
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
ORDER BY since
LIMIT $2
