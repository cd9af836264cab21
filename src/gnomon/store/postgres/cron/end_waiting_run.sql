-- Cancel a run that has had an execution and waits for its retry, or is paused (CANCEL -> CANCELLED).
WITH gone AS (
    DELETE FROM gnomon.task
    WHERE tenant_id = $1 AND id = $2 AND state IN (0, 2) AND attempt > 0
    RETURNING *, gnomon.removes_payload(keep_payload, 11) AS removed
), payload AS (
    DELETE FROM gnomon.task_payload
    WHERE tenant_id = $1 AND task_id = $2 AND EXISTS (SELECT FROM gone WHERE removed)
)
INSERT INTO gnomon.task_archive (
    {carried}, state, started_at, finished_at, attempt, payload_size, payload, payload_removed,
    last_error
)
SELECT
    {carried}, 11, started_at, gnomon.now(), attempt,
    CASE WHEN NOT removed THEN payload_size END, CASE WHEN NOT removed THEN payload END,
    removed AND (payload_size IS NOT NULL OR payload IS NOT NULL), $3
FROM gone
RETURNING id
