-- Write what the turn of a node has made of it: $3 whether the payload changes, $4 the payload, $5 its
-- size where it is kept apart, $6 the target where that changes, $7 what keyed limiters find in the new
-- payload. The template is used up.
WITH dropped AS (
    DELETE FROM gnomon.task_payload
    WHERE $3::boolean AND $5::integer IS NULL AND tenant_id = $1 AND task_id = $2
), kept AS (
    INSERT INTO gnomon.task_payload AS p (tenant_id, task_id, payload)
    SELECT $1, $2, $4::json WHERE $3 AND $5 IS NOT NULL
    ON CONFLICT (tenant_id, task_id) DO UPDATE SET payload = excluded.payload
), metered AS (
    INSERT INTO gnomon.usage AS u (tenant_id, day, session, stored_bytes, held_bytes)
    SELECT $1, (SELECT (gnomon.now() AT TIME ZONE 'UTC')::date), pg_backend_pid(),
        coalesce(octet_length($4::json::text), 0),
        coalesce(octet_length($4::json::text), 0) + coalesce(octet_length($6::json::text), 0)
    ON CONFLICT (tenant_id, day, session) DO UPDATE
    SET stored_bytes = u.stored_bytes + excluded.stored_bytes,
        held_bytes = u.held_bytes + excluded.held_bytes
), filled AS (
    UPDATE gnomon.task
    SET target = coalesce($6::json, target),
        payload = CASE WHEN NOT $3 THEN payload WHEN $5 IS NULL THEN $4 END,
        payload_size = CASE WHEN $3 THEN $5 ELSE payload_size END,
        limit_keys = CASE WHEN $3 THEN $7::text ELSE limit_keys END,
        flow = gnomon.flow_of(
            task_type, queue, CASE WHEN $3 THEN $7::text ELSE limit_keys END,
            coalesce($6::json, target)
        )
    WHERE tenant_id = $1 AND id = $2
)
UPDATE gnomon.workflow_node SET template = NULL WHERE tenant_id = $1 AND task_id = $2
