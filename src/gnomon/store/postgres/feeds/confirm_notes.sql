-- What the broker has confirmed of a feed ($1 tenant, $2 feed, $3 places) is published; $4 is the error of
-- what it has not. It is right whoever says so: what is confirmed stays confirmed.
WITH gone AS (
    DELETE FROM gnomon.feed_note WHERE feed_id = $2 AND place = ANY ($3::bigint[]) RETURNING place
)
UPDATE gnomon.feed AS f
SET published = f.published + g.number,
    published_at = CASE WHEN g.number > 0 THEN m.now ELSE f.published_at END,
    failing_since = CASE WHEN $4::text IS NOT NULL THEN coalesce(f.failing_since, m.now) END,
    last_error = $4::text
FROM (SELECT count(*) AS number FROM gone) AS g, (SELECT gnomon.now() AS now) AS m
WHERE f.tenant_id = $1 AND f.id = $2
