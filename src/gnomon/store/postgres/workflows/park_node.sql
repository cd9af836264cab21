-- Let a node wait ($3 whether it still has to), for the signal $4, until $5, or for $6 seconds from its
-- turn on. Gives whether that time is over.
UPDATE gnomon.workflow_node AS n
SET signal = $4, due_at = m.due_at,
    step = CASE WHEN $3::boolean AND coalesce(m.due_at > m.now, true) THEN -1 ELSE 1 END
FROM (
    SELECT p.task_id, c.now,
        coalesce(p.due_at, $5::timestamptz, c.now + make_interval(secs => $6::float8)) AS due_at
    FROM gnomon.workflow_node AS p, (SELECT gnomon.now() AS now) AS c
    WHERE p.tenant_id = $1 AND p.task_id = $2
) AS m
WHERE n.tenant_id = $1 AND n.task_id = m.task_id
RETURNING coalesce(m.due_at <= m.now, false) AS over
