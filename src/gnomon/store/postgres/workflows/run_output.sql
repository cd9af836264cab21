-- What became of a node, and its output.
SELECT e.node, e.state, e.output, e.too_large, e.finished_at
FROM gnomon.workflow_result AS e
WHERE e.tenant_id = $1 AND e.run_id = $2 AND e.node = $3
