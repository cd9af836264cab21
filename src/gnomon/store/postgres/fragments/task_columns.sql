-- Lists of columns that several statements share, each written once. In a statement, {carried} stands
-- for the list and {t.carried} for the same columns of t: see queries.py.

-- carried: columns that a task takes along from the live table to the archive, as they are.
tenant_id, id, lane, delivery, execute_at, expires_at, fence, timeout_seconds, task_type, name,
target, retry_policy, tags, idempotency_key, created_by, cron_job_id, retry_of, preemptible, queue,
keep_payload, sla_seconds, warn_after_seconds, origin, workflow_run_id, workflow_node,
batch_id

-- new_task: columns of a new task, but for its tenant and payload, which insert_tasks needs by themselves.
id, lane, delivery, execute_at, due_at, expires_at, retries_left, timeout_seconds, task_type, name,
target, retry_policy, tags, idempotency_key, created_by, retry_of, cron_job_id, fire_at, gated,
preemptible, queue, limit_keys, keep_payload, sla_seconds, warn_after_seconds, origin, log_transitions,
batch_id

-- new_task_arrays: the parameters that hold them, a batch each. $1 is the tenants, $13 the payloads.
$2::uuid[], $3::smallint[], $4::smallint[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[],
$8::integer[], $9::real[], $10::text[], $11::text[], $12::json[], $14::json[], $15::jsonb[],
$16::text[], $17::text[], $18::uuid[], $19::uuid[], $20::timestamptz[], $21::boolean[],
$22::boolean[], $23::text[], $24::text[], $25::smallint[], $26::float8[], $27::float8[],
$28::json[], $29::boolean[], $30::uuid[]

-- new_task_values: what is stored of them. An array of one element holds for the whole batch, an empty
-- one for no task, but that of due_at, which says that tasks are due when they were asked for; none is
-- due before it is stored. Whether transitions are logged is known of those
-- that the API makes; for a run of a cron job (s) its type is asked now.
id, coalesce(lane, ($3::smallint[])[1]), coalesce(delivery, ($4::smallint[])[1]),
coalesce(execute_at, ($5::timestamptz[])[1]),
greatest(
    coalesce(due_at, ($6::timestamptz[])[1], execute_at, ($5::timestamptz[])[1]), (SELECT gnomon.now())
), expires_at, coalesce(retries_left, ($8::integer[])[1]),
coalesce(timeout_seconds, ($9::real[])[1]), coalesce(task_type, ($10::text[])[1]), name,
coalesce(target, ($12::json[])[1]), retry_policy, tags, idempotency_key, created_by, retry_of,
cron_job_id, fire_at, coalesce(gated, false), coalesce(preemptible, false), queue, limit_keys,
coalesce(keep_payload, 0::smallint), sla_seconds, warn_after_seconds, origin,
CASE WHEN cron_job_id IS NULL THEN coalesce(log_transitions, ($29::boolean[])[1], false)
    ELSE coalesce(
        (SELECT y.defaults ->> 'log_transitions' = 'true'
         FROM gnomon.task_type AS y
         WHERE y.tenant_id = coalesce(s.tenant_id, ($1::text[])[1])
           AND y.name = coalesce(s.task_type, ($10::text[])[1])),
        false
    ) END, batch_id

-- new_task_place: the shard and the flow of a new task (see gnomon.flow_of). The flow is made once where
-- all of a batch are alike in what it is made of: no array has more than one element.
gnomon.shard_of(id),
coalesce(
    (SELECT gnomon.flow_of(($10::text[])[1], ($23::text[])[1], ($24::text[])[1], ($12::json[])[1])
     WHERE greatest(
         cardinality($10::text[]), cardinality($23::text[]), cardinality($24::text[]),
         cardinality($12::json[])
     ) = 1),
    gnomon.flow_of(
        coalesce(task_type, ($10::text[])[1]), queue, limit_keys, coalesce(target, ($12::json[])[1])
    )
)
