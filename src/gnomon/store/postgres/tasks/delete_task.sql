-- Remove a task and all that is kept about it. Gives whether it was there.
WITH live AS (
    DELETE FROM gnomon.task WHERE tenant_id = $1 AND id = $2 RETURNING id
), finished AS (
    DELETE FROM gnomon.task_archive WHERE tenant_id = $1 AND id = $2 RETURNING id
), payload AS (
    DELETE FROM gnomon.task_payload WHERE tenant_id = $1 AND task_id = $2
), progress AS (
    DELETE FROM gnomon.progress WHERE tenant_id = $1 AND task_id = $2
), resolution AS (
    DELETE FROM gnomon.resolution WHERE tenant_id = $1 AND task_id = $2
), executions AS (
    DELETE FROM gnomon.execution WHERE tenant_id = $1 AND task_id = $2
)
SELECT EXISTS (SELECT FROM live UNION ALL SELECT FROM finished) AS found
