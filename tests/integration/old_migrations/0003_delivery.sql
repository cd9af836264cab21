-- Delivery modes: a mark on tasks that have begun, and completion within a handler's transaction.

-- While running: whether the call may have been made. Kept only for tasks that are asked for their
-- consent before they start (not at_least_once, or lost before); for the others nobody knows.
ALTER TABLE gnomon.task ADD COLUMN begun boolean NOT NULL DEFAULT false;

-- Complete a running task within the caller's transaction, so that its own writes and the end of
-- the task are committed together, or neither is. The fence and the node are those that the
-- handler was called with. Raises GN001 where the run was taken over meanwhile: the caller must
-- roll back. What it writes is what settle.sql writes for a completed task.
-- From here to the commit the row is locked, and whoever settles other tasks beside this one waits.
-- So PostgreSQL ends a session that completes and does not commit within 5 s: stopped, hung, cut off
-- or busy. (Before version 17 it can do so only for one that is idle, or busy with one statement.)
CREATE FUNCTION gnomon.complete_run(
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
        retry_of
    )
    SELECT
        g.tenant_id, g.id, g.lane, 10, g.delivery, g.execute_at, g.expires_at, g.started_at,
        gnomon.now(), g.fence, g.attempt, g.timeout_seconds, g.payload_size, g.task_type, g.name,
        g.target, g.payload, g.retry_policy, g.tags, g.idempotency_key, g.created_by, g.last_error,
        n.name, complete_run.result, g.cron_job_id, g.retry_of
    FROM gone AS g LEFT JOIN gnomon.node AS n ON n.incarnation = g.node;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'task % is no longer run by the one who would complete it', task_id
            USING ERRCODE = 'GN001', HINT = 'Roll back: it has been given to another node.';
    END IF;
END
$$;
