-- Queued runs whose turn has come (UNBLOCK -> WAITING), with the consent of their job. They are found
-- by one probe of the primary key each, as in settle.
UPDATE gnomon.task AS t
SET state = 0, gated = false, due_at = greatest(t.due_at, (SELECT gnomon.now()))
FROM unnest((SELECT $1::text[]), (SELECT $2::uuid[])) AS k (tenant_id, id)
CROSS JOIN LATERAL (
    SELECT task.ctid FROM gnomon.task
    WHERE task.tenant_id = k.tenant_id AND task.id = k.id AND task.state + 0 = 3
    OFFSET 0
) AS f
WHERE t.ctid = f.ctid AND t.state + 0 = 3
RETURNING t.tenant_id, t.id, t.due_at, t.lane, t.flow, gnomon.is_by_handler(t.target) AS by_handler
