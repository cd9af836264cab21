-- Count more nodes of a run, $3 of them; gives how many it has then.
UPDATE gnomon.workflow_run AS r
SET nodes = $3::integer + coalesce(r.nodes, (
    SELECT count(*) FROM gnomon.workflow_node AS n
    WHERE n.tenant_id = $1 AND n.run_id = $2 AND n.node <> ''
))
WHERE r.tenant_id = $1 AND r.id = $2
RETURNING r.nodes
