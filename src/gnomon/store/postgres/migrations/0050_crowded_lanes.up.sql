-- Lanes of tenants in which so much is due and waits that new tasks are refused. One process writes them
-- all, and says when in gnomon.revision, which every process reads twice a second: what it has not said
-- for 15 s holds no longer. The column has another name than tenant_id because tenants never read this.
CREATE TABLE gnomon.crowded_lane (
    tenant       text NOT NULL,
    lane         smallint NOT NULL,
    ready        integer NOT NULL,  -- tasks that wait
    most         integer NOT NULL,  -- that may
    shared       boolean NOT NULL,  -- it is the tenant's share of what may wait in all
    wait_seconds integer NOT NULL,
    PRIMARY KEY (tenant, lane)
);
ALTER TABLE gnomon.revision ADD COLUMN crowded_at timestamptz;

-- Refuse a task that is due soon in a crowded lane: SQLSTATE GN103.
CREATE FUNCTION gnomon.check_crowd(task gnomon.task) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    v_crowd gnomon.crowded_lane;
BEGIN
    SELECT c.* INTO v_crowd
    FROM gnomon.crowded_lane AS c
    WHERE c.tenant = task.tenant_id AND c.lane = task.lane
      AND task.due_at <= gnomon.now() + interval '1 minute'
      AND (SELECT r.crowded_at FROM gnomon.revision AS r) > gnomon.now() - interval '15 seconds';
    IF FOUND THEN
        RAISE EXCEPTION '% tasks are due and wait, and % is %', v_crowd.ready,
            CASE WHEN v_crowd.shared THEN 'the tenant''s share of sharing.max_ready_tasks'
                ELSE 'the quota ready_tasks' END, v_crowd.most
            USING ERRCODE = 'GN103', HINT = format(
                'Try again in %s s, or submit it for later than 60 s from now.', v_crowd.wait_seconds
            );
    END IF;
END
$$;

-- Store a task, and everything that is stored with it.
CREATE OR REPLACE FUNCTION gnomon.store_task(task gnomon.task, payload json, size bigint) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM gnomon.check_crowd(task);
    INSERT INTO gnomon.task (
        tenant_id, id, lane, delivery, execute_at, due_at, expires_at, retries_left, timeout_seconds,
        payload_size, task_type, name, target, payload, retry_policy, tags, idempotency_key, created_by,
        retry_of, preemptible, queue, limit_keys, keep_payload, sla_seconds, warn_after_seconds, origin,
        log_transitions
    )
    VALUES (
        task.tenant_id, task.id, task.lane, task.delivery, task.execute_at,
        greatest(task.due_at, gnomon.now()), task.expires_at, task.retries_left,
        task.timeout_seconds, task.payload_size, task.task_type, task.name, task.target,
        CASE WHEN task.payload_size IS NULL THEN store_task.payload END, task.retry_policy, task.tags,
        task.idempotency_key, task.created_by, task.retry_of, task.preemptible, task.queue, task.limit_keys,
        task.keep_payload, task.sla_seconds, task.warn_after_seconds, task.origin, task.log_transitions
    );
    IF task.payload_size IS NOT NULL THEN
        INSERT INTO gnomon.task_payload (tenant_id, task_id, payload)
        VALUES (task.tenant_id, task.id, store_task.payload);
    END IF;
    IF task.retry_of IS NOT NULL THEN
        INSERT INTO gnomon.task_copy (tenant_id, original, id)
        VALUES (task.tenant_id, task.retry_of, task.id);
    END IF;
    INSERT INTO gnomon.usage AS u (tenant_id, day, session, submissions, stored_bytes, held_bytes)
    VALUES (
        task.tenant_id, (gnomon.now() AT TIME ZONE 'UTC')::date, pg_backend_pid(), 1,
        coalesce(octet_length(store_task.payload::text), 0), size
    )
    ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE
    SET submissions = u.submissions + excluded.submissions,
        stored_bytes = u.stored_bytes + excluded.stored_bytes,
        held_bytes = u.held_bytes + excluded.held_bytes;
    INSERT INTO gnomon.uncounted_submission (tenant_id, at, task_type, lane)
    VALUES (task.tenant_id, gnomon.now(), task.task_type, task.lane);
END
$$;
