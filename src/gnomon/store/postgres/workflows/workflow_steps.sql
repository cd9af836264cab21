-- Nodes of workflows that something is left to do about, but for those of runs that are paused. task:
-- the state of its task; became: what became of it. $1 how many, $2 those that are set aside: they fail.
SELECT n.tenant_id, n.task_id, n.run_id, n.node, n.step, n.kind, n.elements, n.expanded, n.template, n.compensates,
    r.state AS run, t.state AS task, e.state AS became
FROM gnomon.workflow_node AS n
JOIN gnomon.workflow_run AS r ON r.tenant_id = n.tenant_id AND r.id = n.run_id AND NOT r.paused
LEFT JOIN gnomon.task AS t ON t.tenant_id = n.tenant_id AND t.id = n.task_id
LEFT JOIN gnomon.workflow_result AS e ON e.tenant_id = n.tenant_id AND e.task_id = n.task_id
WHERE n.step > 0 AND n.task_id <> ALL ($2::uuid[])
ORDER BY n.run_id, n.task_id
LIMIT $1
