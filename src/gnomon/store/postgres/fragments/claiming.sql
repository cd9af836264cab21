-- chosen_key: one key of a batch, with the flow that it was chosen as.
-- A column of one element holds for the whole batch; it is looked at once, by (SELECT ...).
coalesce(u.tenant_id, (SELECT CASE WHEN cardinality($2::text[]) = 1 THEN ($2::text[])[1] END)) AS tenant_id, u.id,
            coalesce(u.flow, (SELECT CASE WHEN cardinality($6::bigint[]) = 1 THEN ($6::bigint[])[1] END)) AS flow

-- chosen_row: the row of a key `k`, if it may be claimed, locked. Ahead of its time (`until`) only what
-- concerns nobody but its own row: no run of a job, node of a workflow or member of a batch, nothing
-- whose changes are noted, and nothing that asks before it is called.
SELECT task.ctid
        FROM gnomon.task
        WHERE task.tenant_id = k.tenant_id
          AND task.id = k.id
          AND task.state + 0 = 0
          AND (task.due_at <= (SELECT now FROM moment)
            OR task.due_at <= (SELECT until FROM moment)
              AND task.cron_job_id IS NULL AND task.workflow_run_id IS NULL AND task.batch_id IS NULL
              AND NOT task.log_transitions AND task.delivery = 0 AND task.losses = 0)
          AND (NOT task.gated OR $5::boolean)
          AND (coalesce(k.flow, 0) = 0 OR task.flow = k.flow)
        FOR UPDATE SKIP LOCKED

-- claimed_values: what a claim changes in a row `t`, at the moment `m`, but for its node. What is claimed
-- ahead starts at its time.
state = 1,
    fence = t.fence + 1,
    attempt = t.attempt + 1,
    gated = false,
    begun = false,
    started_at = greatest(m.now, t.due_at),
    run_until = greatest(m.now, t.due_at) + make_interval(secs => t.timeout_seconds + $4::float8)

-- claimed_columns: a claimed row `t` as it goes to whoever runs it.
t.tenant_id, t.id, t.fence, t.attempt, t.retries_left, t.losses, t.target, t.payload,
    t.payload_size, t.timeout_seconds, t.retry_policy, t.task_type, t.lane, t.delivery,
    date_part('epoch', t.execute_at) AS scheduled_for, t.idempotency_key, t.preemptible, t.queue, t.limit_keys, t.flow,
    t.origin,
    coalesce(t.expires_at <= t.started_at AND (t.cron_job_id IS NULL OR t.attempt = 1), false) AS expired,
    t.cron_job_id IS NOT NULL AS recurring, t.workflow_node, t.ctid AS address,
    date_part('epoch', t.started_at) AS not_before
