-- complete_run as it was.
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
REVOKE DELETE ON gnomon.api_key FROM gnomon_tenant;
ALTER TABLE gnomon.revision DROP COLUMN full_until, DROP COLUMN full_why;
DROP FUNCTION gnomon.fit_stored;
DROP FUNCTION gnomon.stored_bytes;
DROP TABLE gnomon.tenant_storage;
DROP INDEX gnomon.usage_sessions;
ALTER TABLE gnomon.usage DROP COLUMN held_bytes, DROP COLUMN freed_bytes;
