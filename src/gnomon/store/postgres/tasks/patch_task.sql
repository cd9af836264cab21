-- Change a live task that this transaction has locked (CHANGE). A new payload may have to be kept
-- apart, or no longer. $13 says whether the payload changes, $15 is its size where it is kept apart.
-- What is new counts as a whole (held_bytes), and a count finds what went: how many bytes that took is
-- not known here, because PostgreSQL compresses it.
WITH dropped AS (
    DELETE FROM gnomon.task_payload
    WHERE $13::boolean AND $15::integer IS NULL AND tenant_id = $1 AND task_id = $2
), kept AS (
    INSERT INTO gnomon.task_payload AS p (tenant_id, task_id, payload)
    SELECT $1, $2, $14::json WHERE $13 AND $15 IS NOT NULL
    ON CONFLICT (tenant_id, task_id) DO UPDATE SET payload = excluded.payload
), metered AS (
    INSERT INTO gnomon.usage AS u (tenant_id, day, session, stored_bytes, held_bytes)
    SELECT $1, (SELECT (gnomon.now() AT TIME ZONE 'UTC')::date), pg_backend_pid(),
        p.size,
        p.size
            + CASE WHEN $4::json::text <> t.target::text THEN octet_length($4::json::text) ELSE 0 END
            + CASE WHEN $3::text IS DISTINCT FROM t.name
                THEN coalesce(octet_length($3::text), 0) ELSE 0 END
            + CASE WHEN $12::jsonb IS DISTINCT FROM t.tags
                THEN coalesce(octet_length($12::jsonb::text), 0) ELSE 0 END
    FROM gnomon.task AS t
    CROSS JOIN LATERAL (
        SELECT CASE WHEN $13 THEN coalesce(octet_length($14::json::text), 0) ELSE 0 END AS size
    ) AS p
    WHERE t.tenant_id = $1 AND t.id = $2
    ON CONFLICT (tenant_id, day, session) DO UPDATE
    SET stored_bytes = u.stored_bytes + excluded.stored_bytes,
        held_bytes = u.held_bytes + excluded.held_bytes
)
UPDATE gnomon.task
SET name = $3,
    target = $4,
    execute_at = $5,
    due_at = $6,
    expires_at = $7,
    lane = $8,
    timeout_seconds = $9,
    retry_policy = $10,
    retries_left = $11,
    tags = $12,
    queue = $16,
    preemptible = $17,
    keep_payload = $18,
    sla_seconds = $19,
    warn_after_seconds = $20,
    payload = CASE WHEN NOT $13 THEN payload WHEN $15 IS NULL THEN $14 END,
    payload_size = CASE WHEN $13 THEN $15 ELSE payload_size END,
    flow = gnomon.flow_of(task_type, $16, limit_keys, $4)
WHERE tenant_id = $1 AND id = $2
RETURNING flow
