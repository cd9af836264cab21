-- The starts that count at this moment, by limiter and key. $1 the tenant, $2 some
-- limiters, or null for all of them.
SELECT b.limiter, b.key, sum(w.starts) AS started
FROM gnomon.limit_bucket AS b
JOIN gnomon.limit_window AS w ON w.bucket = b.id
LEFT JOIN gnomon.limiter AS m ON m.tenant_id = b.tenant_id AND m.name = b.limiter
WHERE b.tenant_id = $1 AND ($2::text[] IS NULL OR b.limiter = ANY ($2))
  AND w.until > (SELECT gnomon.now()) - make_interval(secs => coalesce(m.per_seconds, 60))
GROUP BY b.limiter, b.key
ORDER BY 3 DESC, 2
