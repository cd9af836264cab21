-- Note no more for feeds for which $1 outcomes wait. Gives their number.
UPDATE gnomon.feed AS f SET gap_since = gnomon.now()
WHERE f.gap_since IS NULL AND f.removed_at IS NULL
  AND EXISTS (
      SELECT FROM gnomon.feed_note AS n WHERE n.feed_id = f.id ORDER BY n.place OFFSET $1 - 1 LIMIT 1
  )
