-- Store a batch of new tasks as most are: no quota is asked about, no payload is kept apart.
-- See insert_tasks.sql, of which this is the part that is always needed; the columns are the same.
-- $25 tenants, $26 how many of the tasks each of them has, $27 how many bytes of payload, $28 how many
-- bytes in all. $29 what is kept of the payloads.
-- Gives the id and the flow of each task.
WITH metered AS (
    INSERT INTO gnomon.usage AS u (
        tenant_id, day, session, submissions, stored_bytes, held_bytes
    )
    SELECT m.tenant_id, (SELECT (gnomon.now() AT TIME ZONE 'UTC')::date), pg_backend_pid(),
        m.submissions, m.stored_bytes, m.held_bytes
    FROM unnest($25::text[], $26::bigint[], $27::bigint[], $28::bigint[])
        AS m (tenant_id, submissions, stored_bytes, held_bytes)
    ON CONFLICT (tenant_id, day, session) DO UPDATE
    SET submissions = u.submissions + excluded.submissions,
        stored_bytes = u.stored_bytes + excluded.stored_bytes,
        held_bytes = u.held_bytes + excluded.held_bytes
)
INSERT INTO gnomon.task (
    tenant_id, id, lane, delivery, execute_at, due_at, expires_at, retries_left, timeout_seconds,
    task_type, name, target, payload, retry_policy, tags, idempotency_key, created_by, retry_of,
    cron_job_id, fire_at, gated, preemptible, queue, limit_keys, keep_payload
)
SELECT
    coalesce(tenant_id, ($1::text[])[1]), id, coalesce(lane, ($3::smallint[])[1]),
    coalesce(delivery, ($4::smallint[])[1]), execute_at, greatest(due_at, (SELECT gnomon.now())),
    expires_at, coalesce(retries_left, ($8::integer[])[1]),
    coalesce(timeout_seconds, ($9::real[])[1]), coalesce(task_type, ($10::text[])[1]), name,
    coalesce(target, ($12::json[])[1]), payload, retry_policy, tags, idempotency_key, created_by,
    retry_of, cron_job_id, fire_at, coalesce(gated, false), coalesce(preemptible, false), queue,
    limit_keys, coalesce(keep_payload, 0::smallint)
FROM unnest(
    $1::text[], $2::uuid[], $3::smallint[], $4::smallint[], $5::timestamptz[], $6::timestamptz[],
    $7::timestamptz[], $8::integer[], $9::real[], $10::text[], $11::text[], $12::json[],
    $13::json[], $14::json[], $15::jsonb[], $16::text[], $17::text[], $18::uuid[], $19::uuid[],
    $20::timestamptz[], $21::boolean[], $22::boolean[], $23::text[], $24::text[],
    $29::smallint[]
) AS s (
    tenant_id, id, lane, delivery, execute_at, due_at, expires_at, retries_left, timeout_seconds,
    task_type, name, target, payload, retry_policy, tags, idempotency_key, created_by, retry_of,
    cron_job_id, fire_at, gated, preemptible, queue, limit_keys, keep_payload
)
RETURNING id, flow
