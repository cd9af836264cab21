-- The nodes of a run with their tasks, wherever these are, in one snapshot. unused: the nodes that it
-- waits for. Elements of mapped nodes, which may be thousands, are left out. The conditions on id say CASE:
-- behind the wall coalesce() keeps indexes from being used.
SELECT n.node, coalesce(n.borrows, n.task_id) AS task_id, n.compensates, n.borrows, n.after,
    e.state AS became, e.finished_at AS ended_at, t.state, t.due_at, t.attempt, t.started_at,
    t.finished_at, t.last_error, (SELECT gnomon.now()) AS now, w.waits_for,
    CASE WHEN n.step = -1 THEN n.signal END AS signal, CASE WHEN n.step = -1 THEN n.due_at END AS until,
    n.elements, n.waits, n.kind
FROM gnomon.workflow_node AS n
LEFT JOIN gnomon.workflow_result AS e ON e.tenant_id = n.tenant_id AND e.task_id = n.task_id
LEFT JOIN LATERAL (
    SELECT state, due_at, attempt, started_at,
        CASE WHEN state = 4 THEN due_at END AS finished_at, last_error
    FROM gnomon.task
    WHERE tenant_id = n.tenant_id AND id = CASE WHEN n.borrows IS NULL THEN n.task_id ELSE n.borrows END
    UNION ALL
    SELECT state, execute_at, attempt, started_at, finished_at, last_error
    FROM gnomon.task_archive
    WHERE tenant_id = n.tenant_id AND id = CASE WHEN n.borrows IS NULL THEN n.task_id ELSE n.borrows END
) AS t ON true
LEFT JOIN (
    SELECT x.child_id, array_agg(p.node ORDER BY p.place) AS waits_for
    FROM gnomon.workflow_node AS p
    JOIN gnomon.workflow_edge AS x ON x.tenant_id = p.tenant_id AND x.parent_id = p.task_id
    WHERE p.tenant_id = $1 AND p.run_id = $2 AND p.place < 10000000
    GROUP BY x.child_id
) AS w ON w.child_id = n.task_id AND NOT n.decided
WHERE n.tenant_id = $1 AND n.run_id = $2 AND n.place < 10000000 AND n.node <> ''
ORDER BY n.place
