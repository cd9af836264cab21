-- Take back reservations: runs that wait for their time must ask again when it comes. One that
-- has become due meanwhile keeps its reservation, and is not among those given.
UPDATE gnomon.task AS t
SET gated = true
FROM unnest($1::text[], $2::uuid[]) AS k (tenant_id, id)
WHERE t.tenant_id = k.tenant_id AND t.id = k.id
  AND t.state = 0 AND t.attempt = 0 AND t.due_at > (SELECT gnomon.now())
RETURNING t.tenant_id, t.id
