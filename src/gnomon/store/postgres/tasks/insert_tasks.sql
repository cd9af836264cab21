-- Store a batch of new tasks; large payloads go to their own table, once and for all.
-- None is due before it is stored, however long it waited for that: the repair scan looks no further
-- back than the oldest transaction that is still writing.
-- Columns that no task of the batch has a value for are empty, which `unnest` reads as NULL; those
-- that every task has the same value in hold it once.
-- Of tenants that have quotas, those are stored that there is room for, by their place among the
-- tenant's tasks in this batch ($26). $27 the tenants, $28 how many tasks each has here, $29 and $30
-- their quotas, $31 whether it is all or none, $32 how long to wait (see gnomon.admit); $33 their
-- quotas of bytes, $34 the sizes of their tasks (see gnomon.fit_stored). $35 the size of each task,
-- $36 what is kept of its payload.
-- Gives the id and the flow of each task that was stored, then what each such tenant was let in.
WITH fitting AS MATERIALIZED (
    SELECT * FROM gnomon.fit_stored(
        $27::text[], $28::integer[], $33::bigint[], $34::bigint[], $31::boolean
    )
), admitted AS MATERIALIZED (
    SELECT a.*, f.fit, f.stored
    FROM gnomon.admit(
        $27, (SELECT coalesce(array_agg(fit ORDER BY place), '{}') FROM fitting), $29::bigint[],
        $30::integer[], $31, $32::integer
    ) AS a
    JOIN fitting AS f ON a.tenant_id = ($27)[f.place]
), offered AS MATERIALIZED (
    SELECT coalesce(tenant_id, ($1::text[])[1]) AS tenant_id, id, lane, delivery, execute_at,
        due_at, expires_at, retries_left, timeout_seconds, task_type, name, target, payload,
        retry_policy, tags, idempotency_key, created_by, retry_of, cron_job_id, fire_at, gated,
        preemptible, queue, limit_keys, payload_size, place, size, keep_payload
    FROM unnest(
        $1::text[], $2::uuid[], $3::smallint[], $4::smallint[], $5::timestamptz[],
        $6::timestamptz[], $7::timestamptz[], $8::integer[], $9::real[], $10::text[], $11::text[],
        $12::json[], $13::json[], $14::json[], $15::jsonb[], $16::text[], $17::text[],
        $18::uuid[], $19::uuid[], $20::timestamptz[], $21::boolean[], $22::boolean[],
        $23::text[], $24::text[], $25::integer[], $26::integer[], $35::bigint[],
        $36::smallint[]
    ) AS s (
        tenant_id, id, lane, delivery, execute_at, due_at, expires_at, retries_left,
        timeout_seconds, task_type, name, target, payload, retry_policy, tags, idempotency_key,
        created_by, retry_of, cron_job_id, fire_at, gated, preemptible, queue, limit_keys,
        payload_size, place, size, keep_payload
    )
), submitted AS MATERIALIZED (
    SELECT o.* FROM offered AS o LEFT JOIN admitted AS a USING (tenant_id)
    WHERE o.place IS NULL OR o.place <= a.passed
), apart AS (
    INSERT INTO gnomon.task_payload (tenant_id, task_id, payload)
    SELECT tenant_id, id, payload FROM submitted WHERE payload_size IS NOT NULL
), metered AS (
    INSERT INTO gnomon.usage AS u (
        tenant_id, day, session, submissions, stored_bytes, held_bytes
    )
    SELECT tenant_id, (SELECT (gnomon.now() AT TIME ZONE 'UTC')::date), pg_backend_pid(),
        count(*), coalesce(sum(octet_length(payload::text)), 0), sum(size)
    FROM submitted
    GROUP BY tenant_id
    ON CONFLICT (tenant_id, day, session) DO UPDATE
    SET submissions = u.submissions + excluded.submissions,
        stored_bytes = u.stored_bytes + excluded.stored_bytes,
        held_bytes = u.held_bytes + excluded.held_bytes
), stored AS (
    INSERT INTO gnomon.task (
        tenant_id, id, lane, delivery, execute_at, due_at, expires_at, retries_left, timeout_seconds,
        payload_size, task_type, name, target, payload, retry_policy, tags, idempotency_key,
        created_by, retry_of, cron_job_id, fire_at, gated, preemptible, queue, limit_keys,
        keep_payload
    )
    SELECT
        tenant_id, id, coalesce(lane, ($3::smallint[])[1]),
        coalesce(delivery, ($4::smallint[])[1]), execute_at,
        greatest(due_at, (SELECT gnomon.now())), expires_at,
        coalesce(retries_left, ($8::integer[])[1]), coalesce(timeout_seconds, ($9::real[])[1]),
        payload_size, coalesce(task_type, ($10::text[])[1]), name,
        coalesce(target, ($12::json[])[1]), CASE WHEN payload_size IS NULL THEN payload END,
        retry_policy, tags, idempotency_key, created_by, retry_of, cron_job_id, fire_at,
        coalesce(gated, false), coalesce(preemptible, false), queue, limit_keys,
        coalesce(keep_payload, 0::smallint)
    FROM submitted
    RETURNING id, flow
)
SELECT id, flow, NULL AS tenant_id, NULL AS passed, NULL AS room, NULL AS pace, NULL AS fit,
    NULL AS stored
FROM stored
UNION ALL
SELECT NULL, NULL, tenant_id, passed, room, pace, fit, stored FROM admitted
