-- The last executions of a task, oldest first. $3 how many.
SELECT t.*
FROM (
    SELECT fence, attempt, outcome, worker, started_at, finished_at, error, response_status,
           response_body, result, traceback
    FROM gnomon.all_executions
    WHERE tenant_id = $1 AND task_id = $2
    ORDER BY fence DESC
    LIMIT $3
) AS t
ORDER BY t.fence
