-- What the templates of these nodes read: the input of their run, and the outputs of other nodes of it.
-- $1 tenant, $2 run, $3 the nodes that are read.
SELECT NULL::text AS node, r.input AS value, false AS too_large
FROM gnomon.workflow_run AS r
WHERE r.tenant_id = $1 AND r.id = $2
UNION ALL
SELECT e.node, e.output, e.too_large
FROM unnest($3::text[]) AS k (node)
JOIN gnomon.workflow_result AS e ON e.tenant_id = $1 AND e.run_id = $2 AND e.node = k.node
