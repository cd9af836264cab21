-- The buckets of which a node ($1) holds something that others wait for.
SELECT DISTINCT b.tenant_id, b.limiter, b.key
FROM gnomon.limit_lease AS waiting
JOIN gnomon.limit_lease AS own ON own.bucket = waiting.bucket AND own.node = $1
JOIN gnomon.limit_bucket AS b ON b.id = waiting.bucket
WHERE (waiting.permits_since IS NOT NULL OR waiting.starts_since IS NOT NULL)
  AND waiting.seen_at > gnomon.now() - interval '2 s'
  AND waiting.node <> $1
