-- The next $2 buckets of limits after bucket $1: which of them nobody has asked for in an hour, how
-- many were looked at, and which was the last. Whether they count nothing is asked under their locks.
WITH looked_at AS MATERIALIZED (
    SELECT b.id
    FROM gnomon.limit_bucket AS b
    WHERE b.id > $1
    ORDER BY b.id
    LIMIT $2::integer
)
SELECT count(*) AS looked_at, max(l.id) AS last,
    coalesce(array_agg(l.id ORDER BY l.id) FILTER (WHERE NOT EXISTS (
        SELECT FROM gnomon.limit_lease AS lease
        WHERE lease.bucket = l.id AND lease.seen_at > gnomon.now() - interval '1 hour'
    )), '{}') AS idle
FROM looked_at AS l
