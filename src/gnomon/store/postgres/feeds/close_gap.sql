-- Go on with a feed ($1 tenant, $2 feed) that had a gap, once all that waited is published: note first
-- which outcomes are missing: from before settlements that had begun when it was found full, up to when
-- those that had begun before this have ended.
WITH held AS (
    SELECT f.tenant_id, f.id, f.gap_since
    FROM gnomon.feed AS f
    WHERE f.tenant_id = $1 AND f.id = $2 AND f.gap_since IS NOT NULL
      AND NOT EXISTS (
          SELECT FROM gnomon.feed_note AS n WHERE n.feed_id = f.id ORDER BY n.place LIMIT 1 OFFSET 0
      )
    FOR UPDATE
), noted AS (
    INSERT INTO gnomon.feed_note (tenant_id, feed_id, state, at, until)
    SELECT tenant_id, id, 0, gap_since - interval '1 minute', gnomon.now() + interval '1 minute' FROM held
)
UPDATE gnomon.feed AS f SET gap_since = NULL FROM held AS h WHERE f.tenant_id = h.tenant_id AND f.id = h.id
