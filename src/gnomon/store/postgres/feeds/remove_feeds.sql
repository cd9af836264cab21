-- Remove the rows of feeds that were removed an hour ago and have no notes: a transaction that was open by
-- then may have noted something later.
DELETE FROM gnomon.feed AS f
WHERE f.removed_at < gnomon.now() - interval '1 hour'
  AND NOT EXISTS (SELECT FROM gnomon.feed_note AS n WHERE n.feed_id = f.id OFFSET 0)
