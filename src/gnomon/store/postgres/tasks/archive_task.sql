-- Finish a task that is not running (CANCEL -> CANCELLED, RESOLVE -> RESOLVED), in one statement:
-- at no moment is it in both tables, or in neither. $3 state, $4 resolution.
WITH gone AS (
    DELETE FROM gnomon.task WHERE tenant_id = $1 AND id = $2
    RETURNING *, gnomon.removes_payload(keep_payload, $3::integer) AS removed
), payload AS (
    DELETE FROM gnomon.task_payload
    WHERE tenant_id = $1 AND task_id = $2 AND EXISTS (SELECT FROM gone WHERE removed)
)
INSERT INTO gnomon.task_archive (
    tenant_id, id, lane, state, delivery, execute_at, expires_at, started_at, finished_at, fence,
    attempt, timeout_seconds, payload_size, task_type, name, target, payload, retry_policy, tags,
    idempotency_key, created_by, last_error, resolution, cron_job_id, retry_of,
    preemptible, queue, keep_payload, payload_removed
)
SELECT
    tenant_id, id, lane, $3::smallint, delivery, execute_at, expires_at, started_at, gnomon.now(),
    fence, attempt, timeout_seconds, CASE WHEN NOT removed THEN payload_size END, task_type, name,
    target, CASE WHEN NOT removed THEN payload END, retry_policy, tags,
    idempotency_key, created_by, last_error, $4::text, cron_job_id, retry_of,
    preemptible, queue, keep_payload,
    removed AND (payload_size IS NOT NULL OR payload IS NOT NULL)
FROM gone
