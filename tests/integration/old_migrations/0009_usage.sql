-- What each tenant uses, by the day (UTC): written by the statements that do the work, so that it is
-- as true as they are. stored_bytes: payloads, results and responses that were written that day.

-- Each session writes to rows of its own, so that none ever waits for another, whatever else its
-- transaction does: a handler's may stay open for seconds. The pruner gathers what sessions have left
-- behind in the row of session 0. Readers take the sum of all.
CREATE TABLE gnomon.usage (
    tenant_id       text COLLATE "C" NOT NULL,
    day             date NOT NULL,
    session         integer NOT NULL,   -- its process id
    submissions     bigint NOT NULL DEFAULT 0,
    executions      bigint NOT NULL DEFAULT 0,
    compute_seconds float8 NOT NULL DEFAULT 0,
    stored_bytes    bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, day, session)
) WITH (
    -- The same few rows again and again: room for their next versions on the same page.
    fillfactor = 20,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000
);
SELECT gnomon.wall('gnomon.usage', 'SELECT, INSERT, UPDATE');

-- As in 0005_flows, and metered.
CREATE OR REPLACE FUNCTION gnomon.complete_run(
    tenant_id text, task_id uuid, fence bigint, node uuid, result json DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('idle_in_transaction_session_timeout', '5s', true);
    IF current_setting('transaction_timeout', true) IS NULL THEN
        PERFORM set_config('statement_timeout', '5s', true);
    ELSE
        PERFORM set_config('transaction_timeout', '5s', true);
    END IF;
    WITH moment AS MATERIALIZED (
        SELECT gnomon.now() AS now
    ), gone AS (
        DELETE FROM gnomon.task AS t
        WHERE t.tenant_id = complete_run.tenant_id AND t.id = complete_run.task_id
          AND t.fence = complete_run.fence AND t.node = complete_run.node
        RETURNING t.*
    ), metered AS (
        INSERT INTO gnomon.usage AS u (
            tenant_id, day, session, executions, compute_seconds, stored_bytes
        )
        SELECT
            g.tenant_id, (m.now AT TIME ZONE 'UTC')::date, pg_backend_pid(), 1,
            coalesce(extract(epoch FROM greatest(m.now - g.started_at, '0')), 0),
            coalesce(octet_length(complete_run.result::text), 0)
        FROM gone AS g, moment AS m
        ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE
        SET executions = u.executions + excluded.executions,
            compute_seconds = u.compute_seconds + excluded.compute_seconds,
            stored_bytes = u.stored_bytes + excluded.stored_bytes
    )
    INSERT INTO gnomon.task_archive (
        tenant_id, id, lane, state, delivery, execute_at, expires_at, started_at, finished_at,
        fence, attempt, timeout_seconds, payload_size, task_type, name, target, payload,
        retry_policy, tags, idempotency_key, created_by, last_error, worker, result, cron_job_id,
        retry_of, preemptible, queue
    )
    SELECT
        g.tenant_id, g.id, g.lane, 10, g.delivery, g.execute_at, g.expires_at, g.started_at,
        m.now, g.fence, g.attempt, g.timeout_seconds, g.payload_size, g.task_type, g.name,
        g.target, g.payload, g.retry_policy, g.tags, g.idempotency_key, g.created_by, g.last_error,
        n.name, complete_run.result, g.cron_job_id, g.retry_of, g.preemptible, g.queue
    FROM gone AS g CROSS JOIN moment AS m LEFT JOIN gnomon.node AS n ON n.incarnation = g.node;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'task % is no longer run by the one who would complete it', task_id
            USING ERRCODE = 'GN001', HINT = 'Roll back: it has been given to another node.';
    END IF;
END
$$;
