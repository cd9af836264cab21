-- Add what sessions have left behind, of days that are over or because they have ended, to one row for
-- each tenant and day, and its bytes to those of the tenant; at most $1 of their rows, and give how many. A row that is being written to waits for the next time.
WITH chosen AS MATERIALIZED (
    SELECT ctid
    FROM gnomon.usage AS u
    WHERE session <> 0
      AND (day < (gnomon.now() AT TIME ZONE 'UTC')::date
        OR NOT EXISTS (SELECT FROM pg_stat_activity AS a WHERE a.pid = u.session))
    LIMIT $1
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM gnomon.usage
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM chosen))
    RETURNING tenant_id, day, submissions, executions, compute_seconds, stored_bytes, held_bytes,
        freed_bytes
), kept AS (
    INSERT INTO gnomon.tenant_storage AS s (tenant_id, bytes, freed_bytes)
    SELECT tenant_id, sum(held_bytes), sum(freed_bytes)
    FROM gone
    GROUP BY tenant_id
    ORDER BY tenant_id
    ON CONFLICT (tenant_id) DO UPDATE
    SET bytes = s.bytes + excluded.bytes, freed_bytes = s.freed_bytes + excluded.freed_bytes
), gathered AS (
    INSERT INTO gnomon.usage AS u (
        tenant_id, day, session, submissions, executions, compute_seconds, stored_bytes
    )
    SELECT
        tenant_id, day, 0, sum(submissions), sum(executions), sum(compute_seconds), sum(stored_bytes)
    FROM gone
    GROUP BY tenant_id, day
    ORDER BY tenant_id, day
    ON CONFLICT (tenant_id, day, session) DO UPDATE
    SET submissions = u.submissions + excluded.submissions,
        executions = u.executions + excluded.executions,
        compute_seconds = u.compute_seconds + excluded.compute_seconds,
        stored_bytes = u.stored_bytes + excluded.stored_bytes
)
SELECT count(*) AS gathered FROM gone
