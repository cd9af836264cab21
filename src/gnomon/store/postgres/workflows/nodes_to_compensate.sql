-- The nodes of a run, what they came after, whether they have completed, and what undoes them.
SELECT n.node, n.after, coalesce(e.completed, false) AS completed, c.task, c.payload, c.template
FROM gnomon.workflow_node AS n
LEFT JOIN gnomon.workflow_result AS e ON e.tenant_id = n.tenant_id AND e.task_id = n.task_id
LEFT JOIN gnomon.workflow_compensation AS c
    ON c.tenant_id = n.tenant_id AND c.run_id = n.run_id AND c.node = n.node AND e.completed
WHERE n.tenant_id = $1 AND n.run_id = $2 AND n.node <> '' AND n.compensates IS NULL
ORDER BY n.place
