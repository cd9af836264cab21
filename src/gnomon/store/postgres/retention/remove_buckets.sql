-- Remove the buckets $1, which are locked, that nobody has asked for in an hour and that count nothing.
DELETE FROM gnomon.limit_bucket AS b
WHERE b.id = ANY ($1::bigint[])
  AND NOT EXISTS (
      SELECT FROM gnomon.limit_lease AS l
      WHERE l.bucket = b.id
        AND (l.permits > 0 OR l.seen_at > gnomon.now() - interval '1 hour')
  )
  AND NOT EXISTS (
      SELECT FROM gnomon.limit_window AS w
      LEFT JOIN gnomon.limiter AS m ON m.tenant_id = b.tenant_id AND m.name = b.limiter
      WHERE w.bucket = b.id
        AND w.until > gnomon.now() - make_interval(secs => coalesce(m.per_seconds, 60))
  )
