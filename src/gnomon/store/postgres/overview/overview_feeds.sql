-- Outcomes that wait for feeds, $1 of a feed at the most, and feeds that are a minute behind or have a gap.
SELECT
    coalesce(sum(w.backlog), 0)::bigint AS backlog,
    count(*) FILTER (WHERE f.gap_since IS NOT NULL OR h.at < gnomon.now() - interval '1 minute') AS behind
FROM gnomon.feed AS f
CROSS JOIN LATERAL (
    SELECT count(*) AS backlog
    FROM (SELECT FROM gnomon.feed_note AS n WHERE n.feed_id = f.id ORDER BY n.place LIMIT $1) AS n
) AS w
LEFT JOIN LATERAL (
    SELECT n.at FROM gnomon.feed_note AS n WHERE n.feed_id = f.id ORDER BY n.place LIMIT 1
) AS h ON true
WHERE f.removed_at IS NULL
