-- All executions of a task, oldest first; one row without a fence for a task that has none yet, no
-- row for one that does not exist.
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
    WHERE tenant_id = $1 AND task_id = $2
) AS t ON true
ORDER BY t.fence
