-- A mapped node, locked: how far it is.
SELECT n.place, n.on_failure, n.elements, n.expanded, n.waits, n.after
FROM gnomon.workflow_node AS n
WHERE n.tenant_id = $1 AND n.task_id = $2
FOR UPDATE
