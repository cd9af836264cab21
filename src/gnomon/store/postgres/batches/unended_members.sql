-- Members of a cancelled batch that have not ended, and were not asked to. $3 how many.
SELECT t.tenant_id, t.id AS task_id, t.state
FROM gnomon.task AS t
WHERE t.tenant_id = $1 AND t.batch_id = $2 AND t.workflow_node IS NULL AND t.state < 4
  AND NOT (t.state = 1 AND t.cancel_requested)
ORDER BY t.id
LIMIT $3
