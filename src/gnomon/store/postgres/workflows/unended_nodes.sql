-- Nodes of a run that is being cancelled or rolled back which have not ended, and were not asked to; and
-- dead letters that had counted, and were tried again just before. $3 how many, $4 also those that run
-- and were asked. Not the run of a cron job, which has the id of the end: it ends with the run.
SELECT n.tenant_id, n.task_id, t.state
FROM gnomon.workflow_node AS n
JOIN gnomon.task AS t ON t.tenant_id = n.tenant_id AND t.id = n.task_id
WHERE n.tenant_id = $1 AND n.run_id = $2 AND n.node <> '' AND n.compensates IS NULL
  AND ($4 OR NOT (t.state = 1 AND t.cancel_requested))
  AND (t.state <> 4 OR NOT EXISTS (
      SELECT FROM gnomon.workflow_result AS e
      WHERE e.tenant_id = n.tenant_id AND e.task_id = n.task_id
  ))
ORDER BY n.task_id
LIMIT $3
