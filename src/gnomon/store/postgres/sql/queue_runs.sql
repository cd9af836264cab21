-- Runs that wait for the one before them (QUEUE -> BLOCKED). They came in time, so they cannot be
-- missed any more.
UPDATE gnomon.task AS t
SET state = 3, expires_at = NULL
FROM unnest($1::text[], $2::uuid[]) AS k (tenant_id, id)
WHERE t.tenant_id = k.tenant_id AND t.id = k.id AND t.state = 0 AND t.attempt = 0
