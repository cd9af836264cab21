-- Finish a task that is not running (CANCEL -> CANCELLED, RESOLVE -> RESOLVED), in one statement:
-- at no moment is it in both tables, or in neither. $3 state, $4 resolution.
WITH gone AS (
    DELETE FROM gnomon.task WHERE tenant_id = $1 AND id = $2 RETURNING *
)
INSERT INTO gnomon.task_archive (
    tenant_id, id, lane, state, delivery, execute_at, expires_at, started_at, finished_at, fence,
    attempt, timeout_seconds, payload_size, task_type, name, target, payload, retry_policy, tags,
    idempotency_key, created_by, last_error, resolution, cron_job_id, retry_of,
    preemptible, queue
)
SELECT
    tenant_id, id, lane, $3::smallint, delivery, execute_at, expires_at, started_at, gnomon.now(),
    fence, attempt, timeout_seconds, payload_size, task_type, name, target, payload, retry_policy,
    tags, idempotency_key, created_by, last_error, $4::text, cron_job_id, retry_of,
    preemptible, queue
FROM gone
