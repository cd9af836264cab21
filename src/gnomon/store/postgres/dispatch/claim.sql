-- Take the chosen tasks (WAITING, CLAIM -> RUNNING), each with a new fence, for one node.
-- The LATERAL keeps the plan at one primary-key probe a task; SKIP LOCKED keeps two nodes that
-- choose the same keys from waiting for each other. `state + 0`: no partial index answers to that, or
-- the planner would take one that it believes to be empty, and walk the dead entries of a backlog.
-- A gated run starts only with the consent of its cron job ($5: it was given). Once a run of a job
-- has started in time it cannot be missed any more, so its retries do not expire.
-- The row of the node is locked, so that whoever locks it after us knows of all that it claimed: see
-- gnomon.drop_dead_leases.
-- $1 incarnation, $2/$3 the keys, $4 seconds of grace after a task's timeout, $6 the flow that each
-- was chosen as, if it is known: it has the permits of that one.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
), chosen AS MATERIALIZED (
    SELECT t.ctid
    FROM (
        -- A column of one element holds for the whole batch.
        SELECT CASE WHEN cardinality($2::text[]) = 1 THEN ($2::text[])[1] ELSE u.tenant_id END
            AS tenant_id, u.id,
            CASE WHEN cardinality($6::bigint[]) = 1 THEN ($6::bigint[])[1] ELSE u.flow END AS flow
        FROM unnest($2::text[], $3::uuid[], $6::bigint[]) AS u (tenant_id, id, flow)
    ) AS k
    CROSS JOIN LATERAL (
        SELECT task.ctid
        FROM gnomon.task
        WHERE task.tenant_id = k.tenant_id
          AND task.id = k.id
          AND task.state + 0 = 0
          AND task.due_at <= (SELECT now FROM moment)
          AND (NOT task.gated OR $5::boolean)
          AND (coalesce(k.flow, 0) = 0 OR task.flow = k.flow)
        FOR UPDATE SKIP LOCKED
    ) AS t
    WHERE EXISTS (SELECT FROM gnomon.node WHERE incarnation = $1 AND NOT dead FOR KEY SHARE)
)
UPDATE gnomon.task AS t
SET state = 1,
    -- As it is. But where an UPDATE names no column that a generated one is made of, PostgreSQL (18)
    -- parses what generates them anew for every row, to find each time that there is nothing to do:
    -- two thirds of what a claim would cost.
    id = t.id,
    fence = t.fence + 1,
    attempt = t.attempt + 1,
    node = $1,
    gated = false,
    begun = false,
    started_at = m.now,
    run_until = m.now + make_interval(secs => t.timeout_seconds + $4::float8)
FROM moment AS m
-- A row that changed between the snapshot and its lock is not seen at its new place: it is merely
-- not claimed this time.
WHERE t.ctid = ANY (ARRAY(SELECT ctid FROM chosen))
RETURNING
    t.tenant_id, t.id, t.fence, t.attempt, t.retries_left, t.losses, t.target, t.payload,
    t.payload_size, t.timeout_seconds, t.retry_policy, t.task_type, t.lane, t.delivery,
    date_part('epoch', t.execute_at) AS scheduled_for, t.idempotency_key, t.preemptible, t.queue, t.limit_keys, t.flow,
    t.origin,
    coalesce(t.expires_at <= m.now AND (t.cron_job_id IS NULL OR t.attempt = 1), false) AS expired,
    t.cron_job_id IS NOT NULL AS recurring, date_part('epoch', m.now) AS now
