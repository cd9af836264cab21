-- How much of its limit each bucket of a limiter uses, of $1 leases and $1 windows at the most: the highest
-- use, and how many are full. Permits count that nodes hold, and starts that were granted.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
), used AS MATERIALIZED (
    SELECT l.bucket, sum(l.permits) AS permits
    FROM (SELECT bucket, permits FROM gnomon.limit_lease WHERE permits > 0 LIMIT $1) AS l
    GROUP BY l.bucket
), begun AS MATERIALIZED (
    SELECT w.bucket, w.until, w.starts
    FROM (SELECT bucket, until, starts FROM gnomon.limit_window LIMIT $1) AS w
), shares AS MATERIALIZED (
    SELECT u.permits / m.concurrency::float8 AS share
    FROM used AS u
    JOIN gnomon.limit_bucket AS b ON b.id = u.bucket
    JOIN gnomon.limiter AS m ON m.tenant_id = b.tenant_id AND m.name = b.limiter
    WHERE m.concurrency > 0
    UNION ALL
    SELECT sum(w.starts) / max(m.rate)::float8
    FROM begun AS w
    JOIN gnomon.limit_bucket AS b ON b.id = w.bucket
    JOIN gnomon.limiter AS m ON m.tenant_id = b.tenant_id AND m.name = b.limiter
    WHERE m.rate > 0 AND w.until > (SELECT now FROM moment) - make_interval(secs => m.per_seconds)
    GROUP BY b.id
)
SELECT coalesce(least(max(share), 1), 0)::float8 AS highest, count(*) FILTER (WHERE share >= 1) AS full
FROM shares
