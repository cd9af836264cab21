-- Feeds whose first outcome has waited for $1 seconds, or which have a gap: $2 at the most.
SELECT f.tenant_id, f.name, f.gap_since, f.last_error, h.at AS waiting_since
FROM gnomon.feed AS f
LEFT JOIN LATERAL (
    SELECT n.at FROM gnomon.feed_note AS n WHERE n.feed_id = f.id ORDER BY n.place LIMIT 1
) AS h ON true
WHERE f.removed_at IS NULL
  AND (f.gap_since IS NOT NULL OR h.at < gnomon.now() - make_interval(secs => $1::float8))
ORDER BY f.tenant_id, f.name
LIMIT $2
