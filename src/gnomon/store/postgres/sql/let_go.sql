-- Queued runs whose turn has come (UNBLOCK -> WAITING), with the consent of their job.
UPDATE gnomon.task AS t
SET state = 0, gated = false, due_at = greatest(t.due_at, (SELECT gnomon.now()))
FROM unnest($1::text[], $2::uuid[]) AS k (tenant_id, id)
WHERE t.tenant_id = k.tenant_id AND t.id = k.id AND t.state = 3
RETURNING t.tenant_id, t.id, t.due_at, t.lane, t.flow
