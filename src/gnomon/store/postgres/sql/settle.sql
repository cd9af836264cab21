-- Write what became of a batch of running tasks, each only if its fence and its node are still
-- the ones that the try was started with. Never by state: see task_running.
-- verdict: 0 complete, 1 retry, 2 dead-letter, 3 release, 4 expire. outcome null: no try was made.
-- A requested cancellation is resolved here: success wins, anything else becomes CANCELLED.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
), report AS MATERIALIZED (
    -- A column of one element holds for the whole batch.
    SELECT
        CASE WHEN cardinality($1::text[]) = 1 THEN ($1::text[])[1] ELSE r.tenant_id END AS tenant_id,
        r.id,
        r.fence,
        CASE WHEN cardinality($4::uuid[]) = 1 THEN ($4::uuid[])[1] ELSE r.node END AS node,
        CASE WHEN cardinality($5::smallint[]) = 1 THEN ($5::smallint[])[1] ELSE r.verdict END AS verdict,
        CASE WHEN cardinality($6::smallint[]) = 1 THEN ($6::smallint[])[1] ELSE r.outcome END AS outcome,
        CASE WHEN cardinality($7::float8[]) = 1 THEN ($7::float8[])[1] ELSE r.delay END AS delay,
        CASE WHEN cardinality($8::boolean[]) = 1 THEN ($8::boolean[])[1] ELSE r.spends END AS spends,
        CASE WHEN cardinality($9::smallint[]) = 1 THEN ($9::smallint[])[1] ELSE r.losses END AS losses,
        r.started_at,
        r.finished_at,
        CASE WHEN cardinality($12::text[]) = 1 THEN ($12::text[])[1] ELSE r.worker END AS worker,
        CASE WHEN cardinality($13::text[]) = 1 THEN ($13::text[])[1] ELSE r.error END AS error,
        CASE WHEN cardinality($14::smallint[]) = 1 THEN ($14::smallint[])[1] ELSE r.response_status END AS response_status,
        CASE WHEN cardinality($15::text[]) = 1 THEN ($15::text[])[1] ELSE r.response_body END AS response_body,
        CASE WHEN cardinality($16::json[]) = 1 THEN ($16::json[])[1] ELSE r.result END AS result
    FROM unnest(
        $1::text[], $2::uuid[], $3::bigint[], $4::uuid[], $5::smallint[], $6::smallint[],
        $7::float8[], $8::boolean[], $9::smallint[], $10::timestamptz[], $11::timestamptz[],
        $12::text[], $13::text[], $14::smallint[], $15::text[], $16::json[]
    ) AS r (
        tenant_id, id, fence, node, verdict, outcome, delay, spends, losses, started_at,
        finished_at, worker, error, response_status, response_body, result
    )
), held AS MATERIALIZED (
    SELECT r.*, t.attempt,
        CASE
            WHEN r.verdict = 0 THEN 10
            WHEN t.cancel_requested THEN 11
            WHEN r.verdict = 4 THEN 12
            WHEN r.verdict = 2 THEN 4
            ELSE 0
        END AS new_state,
        CASE WHEN r.outcome IS NULL THEN t.attempt - 1 ELSE t.attempt END AS new_attempt
    FROM report AS r
    CROSS JOIN LATERAL (
        SELECT task.attempt, task.cancel_requested
        FROM gnomon.task
        WHERE task.tenant_id = r.tenant_id
          AND task.id = r.id
          AND task.fence = r.fence
          AND task.node = r.node
        FOR UPDATE
    ) AS t
), gone AS (
    DELETE FROM gnomon.task AS t
    USING held AS h
    WHERE t.tenant_id = h.tenant_id AND t.id = h.id AND h.new_state >= 10
    RETURNING
        t.tenant_id, t.id, t.lane, h.new_state, t.delivery, t.execute_at, t.expires_at,
        CASE WHEN h.outcome IS NOT NULL THEN coalesce(h.started_at, t.started_at) END AS started_at,
        h.finished_at, t.fence, h.new_attempt, t.timeout_seconds, t.payload_size,
        h.response_status, t.task_type, t.name, t.target, t.payload, t.retry_policy, t.tags,
        t.idempotency_key, t.created_by, coalesce(h.error, t.last_error) AS last_error, h.worker,
        h.response_body, h.result, t.cron_job_id, t.retry_of
), archived AS (
    INSERT INTO gnomon.task_archive (
        tenant_id, id, lane, state, delivery, execute_at, expires_at, started_at, finished_at,
        fence, attempt, timeout_seconds, payload_size, response_status, task_type, name, target,
        payload, retry_policy, tags, idempotency_key, created_by, last_error, worker,
        response_body, result, cron_job_id, retry_of
    )
    SELECT
        g.tenant_id, g.id, g.lane, g.new_state, g.delivery, g.execute_at, g.expires_at,
        g.started_at, coalesce(g.finished_at, m.now), g.fence, g.new_attempt, g.timeout_seconds,
        g.payload_size, g.response_status, g.task_type, g.name, g.target, g.payload,
        g.retry_policy, g.tags, g.idempotency_key, g.created_by, g.last_error, g.worker,
        g.response_body, g.result, g.cron_job_id, g.retry_of
    FROM gone AS g, moment AS m
), kept AS (
    UPDATE gnomon.task AS t
    SET state = h.new_state,
        fence = t.fence + 1,
        attempt = h.new_attempt,
        node = NULL,
        run_until = NULL,
        started_at = CASE WHEN h.outcome IS NULL THEN NULL ELSE coalesce(h.started_at, t.started_at) END,
        due_at = CASE WHEN h.outcome IS NULL THEN t.due_at
                      ELSE m.now + make_interval(secs => h.delay) END,
        retries_left = t.retries_left - CASE WHEN h.spends THEN 1 ELSE 0 END,
        losses = h.losses,
        last_error = coalesce(h.error, t.last_error)
    FROM held AS h, moment AS m
    WHERE t.tenant_id = h.tenant_id AND t.id = h.id AND h.new_state < 10
    RETURNING t.tenant_id, t.id, t.due_at
), tried AS (
    INSERT INTO gnomon.execution (
        tenant_id, task_id, fence, attempt, outcome, response_status, started_at, finished_at,
        worker, error, response_body
    )
    SELECT
        h.tenant_id, h.id, h.fence, h.attempt,
        CASE WHEN h.new_state = 11 THEN 5 ELSE h.outcome END,
        h.response_status, h.started_at, coalesce(h.finished_at, m.now), h.worker, h.error,
        h.response_body
    FROM held AS h, moment AS m
    WHERE h.outcome IS NOT NULL AND h.new_state <> 10
)
SELECT h.tenant_id, h.id, h.fence, h.new_state AS state, k.due_at
FROM held AS h LEFT JOIN kept AS k ON k.tenant_id = h.tenant_id AND k.id = h.id
