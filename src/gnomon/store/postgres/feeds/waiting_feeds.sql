-- Feeds whose URL begins with $1 and for which something waits, or which have a gap to tell.
SELECT
    f.tenant_id, f.id, f.name, f.url, f.task_types, f.states, f.created_at, f.updated_at, f.gap_since,
    f.failing_since, f.last_error, f.published, f.published_at
FROM gnomon.feed AS f
WHERE starts_with(f.url, $1) AND f.removed_at IS NULL
  AND (f.gap_since IS NOT NULL OR EXISTS (
      -- The first by its key: of a feed for which nothing waits, the notes of all others would be read.
      SELECT FROM gnomon.feed_note AS n WHERE n.feed_id = f.id ORDER BY n.place LIMIT 1 OFFSET 0
  ))
ORDER BY f.published_at NULLS FIRST
