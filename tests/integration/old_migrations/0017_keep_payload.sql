-- Payloads that are not kept once their task has ended: keep_payload 0 always, 1 failed, 2 never
-- (gnomon.model.task.KeepPayload).
ALTER TABLE gnomon.task ADD COLUMN keep_payload smallint NOT NULL DEFAULT 0;
ALTER TABLE gnomon.task_archive
    ADD COLUMN keep_payload smallint NOT NULL DEFAULT 0,
    ADD COLUMN payload_removed boolean NOT NULL DEFAULT false;  -- it had one

-- Whether a task that ends in this state leaves its payload behind. What was completed or cancelled
-- has not failed; dead letters have not ended.
CREATE FUNCTION gnomon.removes_payload(keep smallint, state integer) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS 'SELECT keep = 2 OR (keep = 1 AND state IN (10, 11))';

-- Remove payloads that are kept apart, by one probe each; gives what each of them took. That is what
-- a tenant has fewer: payloads are stored compressed, and as long as they were sent nobody knows it.
CREATE FUNCTION gnomon.drop_payloads(tenants text[], ids uuid[])
    RETURNS TABLE (tenant_id text, bytes bigint)
    LANGUAGE plpgsql ROWS 10 SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    FOR i IN 1 .. cardinality(ids) LOOP
        DELETE FROM gnomon.task_payload AS p WHERE p.tenant_id = tenants[i] AND p.task_id = ids[i]
        RETURNING p.tenant_id, pg_column_size(p.payload) INTO tenant_id, bytes;
        IF FOUND THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;

-- As in 0016_storage, and a payload that is not to be kept goes.
CREATE OR REPLACE FUNCTION gnomon.complete_run(
    tenant_id text, task_id uuid, fence bigint, node uuid, result json DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_removed boolean;
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
            tenant_id, day, session, executions, compute_seconds, stored_bytes, held_bytes,
            freed_bytes
        )
        SELECT
            g.tenant_id, (m.now AT TIME ZONE 'UTC')::date, pg_backend_pid(), 1,
            coalesce(extract(epoch FROM greatest(m.now - g.started_at, '0')), 0),
            coalesce(octet_length(complete_run.result::text), 0),
            coalesce(octet_length(complete_run.result::text), 0) - f.freed, f.freed
        FROM gone AS g
        CROSS JOIN moment AS m
        CROSS JOIN LATERAL (
            SELECT CASE WHEN gnomon.removes_payload(g.keep_payload, 10)
                THEN coalesce(pg_column_size(g.payload), 0) ELSE 0 END AS freed
        ) AS f
        ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE
        SET executions = u.executions + excluded.executions,
            compute_seconds = u.compute_seconds + excluded.compute_seconds,
            stored_bytes = u.stored_bytes + excluded.stored_bytes,
            held_bytes = u.held_bytes + excluded.held_bytes,
            freed_bytes = u.freed_bytes + excluded.freed_bytes
    ), archived AS (
        INSERT INTO gnomon.task_archive (
            tenant_id, id, lane, state, delivery, execute_at, expires_at, started_at, finished_at,
            fence, attempt, timeout_seconds, payload_size, task_type, name, target, payload,
            retry_policy, tags, idempotency_key, created_by, last_error, worker, result, cron_job_id,
            retry_of, preemptible, queue, keep_payload, payload_removed
        )
        SELECT
            g.tenant_id, g.id, g.lane, 10, g.delivery, g.execute_at, g.expires_at, g.started_at,
            m.now, g.fence, g.attempt, g.timeout_seconds,
            CASE WHEN NOT r.removed THEN g.payload_size END, g.task_type, g.name, g.target,
            CASE WHEN NOT r.removed THEN g.payload END, g.retry_policy, g.tags,
            g.idempotency_key, g.created_by, g.last_error,
            n.name, complete_run.result, g.cron_job_id, g.retry_of, g.preemptible, g.queue,
            g.keep_payload, r.removed AND (g.payload_size IS NOT NULL OR g.payload IS NOT NULL)
        FROM gone AS g
        CROSS JOIN moment AS m
        CROSS JOIN LATERAL (SELECT gnomon.removes_payload(g.keep_payload, 10) AS removed) AS r
        LEFT JOIN gnomon.node AS n ON n.incarnation = g.node
    )
    SELECT g.payload_size IS NOT NULL AND gnomon.removes_payload(g.keep_payload, 10)
    INTO v_removed FROM gone AS g;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'task % is no longer run by the one who would complete it', task_id
            USING ERRCODE = 'GN001', HINT = 'Roll back: it has been given to another node.';
    END IF;
    IF v_removed THEN
        INSERT INTO gnomon.usage AS u (tenant_id, day, session, held_bytes, freed_bytes)
        SELECT
            d.tenant_id, (gnomon.now() AT TIME ZONE 'UTC')::date, pg_backend_pid(), -d.bytes, d.bytes
        FROM gnomon.drop_payloads(ARRAY[complete_run.tenant_id], ARRAY[task_id]) AS d
        ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE
        SET held_bytes = u.held_bytes + excluded.held_bytes,
            freed_bytes = u.freed_bytes + excluded.freed_bytes;
    END IF;
END
$$;
