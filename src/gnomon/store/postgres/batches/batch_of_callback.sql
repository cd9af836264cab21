-- The batch that a callback waits for.
SELECT {batch_values}, t.workflow_node AS callback
FROM gnomon.task AS t
JOIN gnomon.batch AS b ON b.tenant_id = t.tenant_id AND b.id = t.batch_id
CROSS JOIN LATERAL ({batch_notes}) AS n
WHERE t.tenant_id = $1 AND t.id = $2 AND t.workflow_node IS NOT NULL
