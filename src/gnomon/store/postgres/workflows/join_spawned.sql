-- Say what a node counts as, once all that it has spawned has ended: it has failed where one of these
-- has, and was cancelled where one of these was. $1/$2 the node, $3 what it has spawned.
UPDATE gnomon.workflow_result AS r
SET state = f.state
FROM (
    SELECT CASE WHEN bool_or(e.state = 2) THEN 2 WHEN bool_or(e.state = 4) THEN 4 ELSE 1 END AS state
    FROM unnest((SELECT $3::uuid[])) AS s (id)
    CROSS JOIN LATERAL (
        SELECT w.state FROM gnomon.workflow_result AS w
        WHERE w.tenant_id = $1 AND w.task_id = s.id
        OFFSET 0
    ) AS e
) AS f
WHERE r.tenant_id = $1 AND r.task_id = $2 AND r.state = 1 AND f.state <> 1
RETURNING r.state
