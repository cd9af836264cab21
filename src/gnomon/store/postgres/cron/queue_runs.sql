-- Runs that wait for the one before them (QUEUE -> BLOCKED). They came in time, so they cannot be
-- missed any more. They are found by one probe of the primary key each, as in settle. Gives those
-- that do: one that is changed just then is not seen at its new place.
UPDATE gnomon.task AS t
SET state = 3, expires_at = NULL
FROM unnest((SELECT $1::text[]), (SELECT $2::uuid[])) AS k (tenant_id, id)
CROSS JOIN LATERAL (
    SELECT task.ctid FROM gnomon.task
    WHERE task.tenant_id = k.tenant_id AND task.id = k.id AND task.state + 0 = 0
    OFFSET 0
) AS f
WHERE t.ctid = f.ctid AND t.state + 0 = 0 AND t.attempt = 0
RETURNING t.tenant_id, t.id
