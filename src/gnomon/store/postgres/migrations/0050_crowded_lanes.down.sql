-- Store a task, and everything that is stored with it.
CREATE OR REPLACE FUNCTION gnomon.store_task(task gnomon.task, payload json, size bigint) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
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
DROP FUNCTION gnomon.check_crowd(gnomon.task);
ALTER TABLE gnomon.revision DROP COLUMN crowded_at;
DROP TABLE gnomon.crowded_lane;
