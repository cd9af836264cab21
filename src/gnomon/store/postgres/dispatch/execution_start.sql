-- When an execution began that did not complete its task. Asked of few: of tasks that are traced, and
-- tried again.
SELECT started_at FROM gnomon.execution WHERE tenant_id = $1 AND task_id = $2 AND attempt = $3
ORDER BY fence DESC
LIMIT 1
