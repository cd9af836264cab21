-- Store a batch of new tasks; large payloads go to their own table, once and for all.
-- None is due before it is stored, however long it waited for that: the repair scan looks no further
-- back than the oldest transaction that is still writing.
-- Columns that no task of the batch has a value for are empty, which `unnest` reads as NULL.
WITH submitted AS MATERIALIZED (
    SELECT * FROM unnest(
        $1::text[], $2::uuid[], $3::smallint[], $4::smallint[], $5::timestamptz[],
        $6::timestamptz[], $7::timestamptz[], $8::integer[], $9::real[], $10::integer[],
        $11::text[], $12::text[], $13::json[], $14::json[], $15::json[], $16::jsonb[],
        $17::text[], $18::text[], $19::uuid[], $20::uuid[], $21::timestamptz[], $22::boolean[],
        $23::boolean[], $24::text[], $25::text[]
    ) AS s (
        tenant_id, id, lane, delivery, execute_at, due_at, expires_at, retries_left,
        timeout_seconds, payload_size, task_type, name, target, payload, retry_policy, tags,
        idempotency_key, created_by, retry_of, cron_job_id, fire_at, gated,
        preemptible, queue, limit_keys
    )
), apart AS (
    INSERT INTO gnomon.task_payload (tenant_id, task_id, payload)
    SELECT tenant_id, id, payload FROM submitted WHERE payload_size IS NOT NULL
)
INSERT INTO gnomon.task (
    tenant_id, id, lane, delivery, execute_at, due_at, expires_at, retries_left, timeout_seconds,
    payload_size, task_type, name, target, payload, retry_policy, tags, idempotency_key,
    created_by, retry_of, cron_job_id, fire_at, gated, preemptible, queue, limit_keys
)
SELECT
    tenant_id, id, lane, delivery, execute_at, greatest(due_at, (SELECT gnomon.now())), expires_at,
    retries_left, timeout_seconds, payload_size, task_type, name, target,
    CASE WHEN payload_size IS NULL THEN payload END,
    retry_policy, tags, idempotency_key, created_by, retry_of, cron_job_id, fire_at,
    coalesce(gated, false), coalesce(preemptible, false), queue, limit_keys
FROM submitted
RETURNING id, flow
