-- The feeds of a tenant ($1), or the one of a name ($2), and what waits for each, $3 at the most.
SELECT
    f.tenant_id, f.id, f.name, f.url, f.task_types, f.states, f.created_at, f.updated_at, f.gap_since,
    f.failing_since, f.last_error, f.published, f.published_at, w.backlog, h.at AS waiting_since
FROM gnomon.feed AS f
CROSS JOIN LATERAL (
    SELECT count(*) AS backlog
    FROM (SELECT FROM gnomon.feed_note AS n WHERE n.feed_id = f.id ORDER BY n.place LIMIT $3) AS n
) AS w
LEFT JOIN LATERAL (
    SELECT n.at FROM gnomon.feed_note AS n WHERE n.feed_id = f.id ORDER BY n.place LIMIT 1
) AS h ON true
WHERE f.tenant_id = $1 AND ($2::text IS NULL OR f.name = $2) AND f.removed_at IS NULL
ORDER BY f.name
