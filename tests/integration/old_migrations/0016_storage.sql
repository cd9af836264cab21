-- How many bytes each tenant has in the database, for its quota stored_bytes; and whether the
-- database has room for new work at all.

-- What a session has added to a tenant's bytes (or taken off them) since the pruner last gathered. It
-- is written by the statements that write usage in any case.
ALTER TABLE gnomon.usage
    ADD COLUMN held_bytes bigint NOT NULL DEFAULT 0,
    ADD COLUMN freed_bytes bigint NOT NULL DEFAULT 0;  -- that it has taken off: a count needs to know
-- The rows that are not gathered yet are few, of the days of a tenant that are kept.
CREATE INDEX usage_sessions ON gnomon.usage (tenant_id) WHERE session <> 0;

-- What was gathered, corrected by every count. What ends, is deleted or is past retention gives
-- nothing back before the next count, so that nobody gains by it.
CREATE TABLE gnomon.tenant_storage (
    tenant_id     text COLLATE "C" PRIMARY KEY,
    bytes         bigint NOT NULL DEFAULT 0,
    freed_bytes   bigint NOT NULL DEFAULT 0,  -- of all that was gathered
    counted_at    timestamptz,          -- null: never
    count_seconds float8 NOT NULL DEFAULT 0  -- that the last count took
) WITH (fillfactor = 50);
SELECT gnomon.wall('gnomon.tenant_storage', 'SELECT');

-- The bytes of a tenant: never less than there are, but for what is being written just now.
CREATE FUNCTION gnomon.stored_bytes(tenant text) RETURNS bigint
    LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    RETURN greatest(0,
        coalesce((SELECT s.bytes FROM gnomon.tenant_storage AS s WHERE s.tenant_id = tenant), 0)
        + coalesce((
            SELECT sum(u.held_bytes) FROM gnomon.usage AS u
            WHERE u.tenant_id = tenant AND u.session <> 0
        ), 0)
    );
END
$$;

-- How many of each tenant's tasks fit into its quota of bytes (null: it has none), in their order.
-- `sizes`: of all tasks, those of the first tenant first. `whole`: all of a tenant's, or none. Gives
-- for each tenant, by its place, how many, and what it has already.
CREATE FUNCTION gnomon.fit_stored(
    tenants text[], wanted integer[], quotas bigint[], sizes bigint[], whole boolean
) RETURNS TABLE (place integer, fit integer, stored bigint)
    LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    v_first integer := 1;
    v_own bigint[];
BEGIN
    FOR i IN 1 .. cardinality(tenants) LOOP
        place := i;
        fit := wanted[i];
        stored := NULL;
        IF quotas[i] IS NOT NULL THEN
            v_own := sizes[v_first : v_first + wanted[i] - 1];
            stored := gnomon.stored_bytes(tenants[i]);
            IF stored + (SELECT sum(size) FROM unnest(v_own) AS size) > quotas[i] THEN
                SELECT CASE WHEN whole THEN 0 ELSE count(*) END INTO fit
                FROM (
                    SELECT sum(s.size) OVER (ORDER BY s.n) AS upto
                    FROM unnest(v_own) WITH ORDINALITY AS s (size, n)
                ) AS r
                WHERE r.upto <= quotas[i] - stored;
            END IF;
        END IF;
        v_first := v_first + wanted[i];
        RETURN NEXT;
    END LOOP;
END
$$;

-- As in 0009_usage, and the bytes of the result are the tenant's.
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
            tenant_id, day, session, executions, compute_seconds, stored_bytes, held_bytes
        )
        SELECT
            g.tenant_id, (m.now AT TIME ZONE 'UTC')::date, pg_backend_pid(), 1,
            coalesce(extract(epoch FROM greatest(m.now - g.started_at, '0')), 0),
            coalesce(octet_length(complete_run.result::text), 0),
            coalesce(octet_length(complete_run.result::text), 0)
        FROM gone AS g, moment AS m
        ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE
        SET executions = u.executions + excluded.executions,
            compute_seconds = u.compute_seconds + excluded.compute_seconds,
            stored_bytes = u.stored_bytes + excluded.stored_bytes,
            held_bytes = u.held_bytes + excluded.held_bytes
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

-- Until when new work is refused because the database has too little room, and why. Read twice a
-- second with the number. Whoever measures says it again while it is so: a process that dies must not
-- leave the refusal behind.
ALTER TABLE gnomon.revision ADD COLUMN full_until timestamptz, ADD COLUMN full_why text;

-- Keys that have ended are removed, but for the newest: a tenant must not be able to make any number
-- of rows by creating and revoking them.
GRANT DELETE ON gnomon.api_key TO gnomon_tenant;
