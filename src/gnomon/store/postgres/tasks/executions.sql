-- A page of the executions of a task, oldest first; one row without a fence for a task that has none
-- of these, no row for one that does not exist.
-- $3 after this fence, $4 how many, $5 outcome (-1: it is running; null: any).
SELECT t.*
FROM (
    SELECT FROM gnomon.task WHERE tenant_id = $1 AND id = $2
    UNION ALL
    SELECT FROM gnomon.task_archive WHERE tenant_id = $1 AND id = $2
) AS found
LEFT JOIN (
    SELECT fence, attempt, outcome, worker, started_at, finished_at, error, response_status,
           response_body, result, traceback
    FROM gnomon.all_executions
    WHERE tenant_id = $1 AND task_id = $2 AND fence > $3
      AND ($5::smallint IS NULL OR coalesce(outcome, -1) = $5)
    ORDER BY fence
    LIMIT $4
) AS t ON true
ORDER BY t.fence
