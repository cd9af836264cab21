-- Take back reservations: runs that wait for their time, or are paused, must ask again when it comes. One
-- that has become due meanwhile keeps its reservation, and is not among those given.
-- They are found by one probe of the primary key each, as in settle.
UPDATE gnomon.task AS t
SET gated = true
FROM unnest((SELECT $1::text[]), (SELECT $2::uuid[])) AS k (tenant_id, id)
CROSS JOIN LATERAL (
    SELECT task.ctid FROM gnomon.task
    WHERE task.tenant_id = k.tenant_id AND task.id = k.id AND task.state + 0 IN (0, 2)
    OFFSET 0
) AS f
WHERE t.ctid = f.ctid AND t.attempt = 0
  AND (t.state + 0 = 2 OR t.state + 0 = 0 AND t.due_at > (SELECT gnomon.now()))
RETURNING t.tenant_id, t.id
