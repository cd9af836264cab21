-- Cancel a run that has been tried and waits for its retry, or is paused (CANCEL -> CANCELLED).
WITH gone AS (
    DELETE FROM gnomon.task
    WHERE tenant_id = $1 AND id = $2 AND state IN (0, 2) AND attempt > 0
    RETURNING *
)
INSERT INTO gnomon.task_archive (
    tenant_id, id, lane, state, delivery, execute_at, expires_at, started_at, finished_at, fence,
    attempt, timeout_seconds, payload_size, task_type, name, target, payload, retry_policy, tags,
    idempotency_key, created_by, last_error, cron_job_id, retry_of,
    preemptible, queue
)
SELECT
    tenant_id, id, lane, 11, delivery, execute_at, expires_at, started_at, gnomon.now(),
    fence, attempt, timeout_seconds, payload_size, task_type, name, target, payload, retry_policy,
    tags, idempotency_key, created_by, $3, cron_job_id, retry_of,
    preemptible, queue
FROM gone
RETURNING id
