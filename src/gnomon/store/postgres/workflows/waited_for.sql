-- The nodes of its run that a task waits for, and whether the run is paused; the signal that it
-- waits for, and until when. spawned: so many were, by a node that is waited for with them; dead_below: a
-- dead letter among them. A row without a node where it waits for none; no row where it is of no run.
SELECT w.node, w.task_id, w.dead, w.spawned, w.unended, w.dead_below, r.paused,
    CASE WHEN n.step = -1 THEN n.signal END AS signal, CASE WHEN n.step = -1 THEN n.due_at END AS until
FROM gnomon.workflow_node AS n
JOIN gnomon.workflow_run AS r ON r.tenant_id = n.tenant_id AND r.id = n.run_id
LEFT JOIN LATERAL (
    SELECT p.node, p.task_id, coalesce(t.state = 4, false) AS dead, p.place,
        CASE WHEN p.kind <> 2 THEN p.elements END AS spawned, p.waits AS unended,
        CASE WHEN p.kind <> 2 AND p.elements > 0 THEN (
            SELECT d.workflow_node FROM gnomon.task AS d
            WHERE d.tenant_id = n.tenant_id AND d.workflow_run_id = n.run_id AND d.state = 4
              AND starts_with(d.workflow_node, p.node || '/')
            LIMIT 1
        ) END AS dead_below
    FROM gnomon.workflow_node AS p
    JOIN gnomon.workflow_edge AS x
        ON x.tenant_id = p.tenant_id AND x.parent_id = p.task_id AND x.child_id = n.task_id
    LEFT JOIN gnomon.task AS t ON t.tenant_id = p.tenant_id AND t.id = p.task_id
    WHERE p.tenant_id = n.tenant_id AND p.run_id = n.run_id AND NOT n.decided
    LIMIT 1000
) AS w ON true
WHERE n.tenant_id = $1 AND n.task_id = $2
ORDER BY w.place
