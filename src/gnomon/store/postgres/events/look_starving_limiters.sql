-- Limiters that nodes have waited for, without a break, for longer than $1 seconds. At most $2.
SELECT b.tenant_id, b.limiter, min(least(l.permits_since, l.starts_since)) AS since
FROM gnomon.limit_lease AS l
JOIN gnomon.limit_bucket AS b ON b.id = l.bucket
WHERE (l.permits_since IS NOT NULL OR l.starts_since IS NOT NULL)
  AND l.seen_at > gnomon.now() - interval '1 minute'
  AND least(l.permits_since, l.starts_since) < gnomon.now() - make_interval(secs => $1::float8)
GROUP BY b.tenant_id, b.limiter
ORDER BY since
LIMIT $2
