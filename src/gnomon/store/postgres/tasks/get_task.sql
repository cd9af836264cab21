-- One task, wherever it is: live and finished in one snapshot, or one on its way between them
-- would be seen nowhere.
SELECT t.*, coalesce(t.inline_payload, p.payload) AS payload, (SELECT gnomon.now()) AS now
FROM (
    SELECT
        tenant_id, id, lane, state, delivery, execute_at, due_at, expires_at, started_at,
        NULL::timestamptz AS finished_at, attempt, timeout_seconds, payload_size, task_type, name,
        target, payload AS inline_payload, retry_policy, tags, idempotency_key, created_by,
        last_error, NULL::json AS result, NULL::text AS resolution, cancel_requested, cron_job_id,
        retry_of, preemptible, queue, keep_payload, false AS payload_removed
    FROM gnomon.task
    WHERE tenant_id = $1 AND id = $2
    UNION ALL
    SELECT
        tenant_id, id, lane, state, delivery, execute_at, execute_at, expires_at, started_at,
        finished_at, attempt, timeout_seconds, payload_size, task_type, name, target, payload,
        retry_policy, tags, idempotency_key, created_by, last_error, result, resolution, false,
        cron_job_id, retry_of, preemptible, queue, keep_payload, payload_removed
    FROM gnomon.task_archive
    WHERE tenant_id = $1 AND id = $2
) AS t
LEFT JOIN gnomon.task_payload AS p
    ON t.payload_size IS NOT NULL AND p.tenant_id = $1 AND p.task_id = $2
