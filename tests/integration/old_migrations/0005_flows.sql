-- Flows: tasks that stand and fall together. All tasks of a flow have the same tenant, type, queue,
-- limit keys and host, so what keeps one of them from starting (a limit, a broken host) keeps all.

-- The columns of a flow. limit_keys: the values that keyed limiters found in the payload when the
-- task was submitted, as a JSON object with sorted names. Rewrites the table.
ALTER TABLE gnomon.task
    ADD COLUMN preemptible boolean NOT NULL DEFAULT false,
    ADD COLUMN queue text,
    ADD COLUMN limit_keys text,
    ADD COLUMN flow bigint NOT NULL GENERATED ALWAYS AS (
        hashtextextended(
            task_type || E'\x1f' || coalesce(queue, '') || E'\x1f' || coalesce(limit_keys, '')
                || E'\x1f' || coalesce(split_part(target ->> 'url', '/', 3), ''),
            0
        )
    ) STORED;

ALTER TABLE gnomon.task_archive
    ADD COLUMN preemptible boolean NOT NULL DEFAULT false,
    ADD COLUMN queue text;

-- For reading the first due tasks of each flow when there are more than fit into memory.
CREATE INDEX task_flow ON gnomon.task (tenant_id, lane, flow, due_at, id) WHERE state = 0;

-- As in 0003_delivery, with the columns above.
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
    WITH gone AS (
        DELETE FROM gnomon.task AS t
        WHERE t.tenant_id = complete_run.tenant_id AND t.id = complete_run.task_id
          AND t.fence = complete_run.fence AND t.node = complete_run.node
        RETURNING t.*
    )
    INSERT INTO gnomon.task_archive (
        tenant_id, id, lane, state, delivery, execute_at, expires_at, started_at, finished_at,
        fence, attempt, timeout_seconds, payload_size, task_type, name, target, payload,
        retry_policy, tags, idempotency_key, created_by, last_error, worker, result, cron_job_id,
        retry_of, preemptible, queue
    )
    SELECT
        g.tenant_id, g.id, g.lane, 10, g.delivery, g.execute_at, g.expires_at, g.started_at,
        gnomon.now(), g.fence, g.attempt, g.timeout_seconds, g.payload_size, g.task_type, g.name,
        g.target, g.payload, g.retry_policy, g.tags, g.idempotency_key, g.created_by, g.last_error,
        n.name, complete_run.result, g.cron_job_id, g.retry_of, g.preemptible, g.queue
    FROM gone AS g LEFT JOIN gnomon.node AS n ON n.incarnation = g.node;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'task % is no longer run by the one who would complete it', task_id
            USING ERRCODE = 'GN001', HINT = 'Roll back: it has been given to another node.';
    END IF;
END
$$;
