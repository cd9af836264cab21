-- Remove a feed. Its notes are removed by a chore, and then the row.
UPDATE gnomon.feed SET removed_at = gnomon.now()
WHERE tenant_id = $1 AND name = $2 AND removed_at IS NULL
RETURNING name
