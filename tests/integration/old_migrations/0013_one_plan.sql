-- Every hot statement has one possible plan, whatever PostgreSQL believes of its tables. Three things
-- make it so: conditions that no partial index answers to (see claim.sql), tables that are never small,
-- and, for what is read in an order, functions that can plan nothing else.

-- Of a table of a few pages every plan is cheap, and the one that is chosen is kept while the table
-- grows: reading all of it for every claim, until it is next analyzed. So the tables that are read by
-- key have a first megabyte that is never given back, empty or not. (Giving pages back would lock the
-- table against everybody, too.)
ALTER TABLE gnomon.task SET (vacuum_truncate = false);
ALTER TABLE gnomon.idempotency SET (vacuum_truncate = false);

-- Give those tables so many pages at the least. What fills them is rolled back at once, so nobody ever
-- sees it. Asked again at every start: a restored table is as small as its rows.
CREATE FUNCTION gnomon.keep_pages(pages integer DEFAULT 128) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    filling constant text := repeat('x', 1800);  -- four rows fill a page, and are not compressed
    size constant integer := current_setting('block_size');
    lacking integer;
BEGIN
    lacking := pages - pg_relation_size('gnomon.task') / size;
    IF lacking > 0 THEN
        BEGIN
            INSERT INTO gnomon.task (tenant_id, id, state, task_type, target, last_error)
            SELECT '', overlay(overlay(gen_random_uuid()::text PLACING '7' FROM 15)
                PLACING '00000000-0000' FROM 1)::uuid, 2, '', '{}', filling
            FROM generate_series(1, 4 * lacking);
            RAISE SQLSTATE 'GN003';
        EXCEPTION
            WHEN SQLSTATE 'GN003' THEN NULL;
        END;
    END IF;
    lacking := pages - pg_relation_size('gnomon.idempotency') / size;
    IF lacking > 0 THEN
        BEGIN
            INSERT INTO gnomon.idempotency (tenant_id, key, fingerprint, answer, expires_at)
            SELECT '', n::text, '', to_json(filling), '-infinity'
            FROM generate_series(1, 4 * lacking) AS n;
            RAISE SQLSTATE 'GN003';
        EXCEPTION
            WHEN SQLSTATE 'GN003' THEN NULL;
        END;
    END IF;
END
$$;
SELECT gnomon.keep_pages();

-- What is read in an order, as far as a limit, has an index in that order. Where most of its entries are
-- dead, the planner would rather read more and sort it: here it can neither sort nor read otherwise.
-- (Such settings end with the function, so they are safe behind a pooler.)

-- Read ahead: the next waiting tasks of each shard after its cursor, due before the horizon, at most so
-- many of each. pooled: whether the node has a pool or others have one; then what it serves: tenants,
-- lanes, types and queues, null for all; others: the pools of others that go first in each shard.
CREATE FUNCTION gnomon.read_ahead(
    p_shards smallint[],
    p_after_due timestamptz[],
    p_after_ids uuid[],
    p_horizon timestamptz,
    p_most integer,
    p_pooled boolean,
    p_tenants text[],
    p_lanes smallint[],
    p_types text[],
    p_queues text[],
    p_others jsonb[]
) RETURNS TABLE (
    tenant_id text, id uuid, due_at timestamptz, lane smallint, losses smallint, recurring boolean,
    flow bigint
)
LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
RETURN QUERY
SELECT t.tenant_id, t.id, t.due_at, t.lane, t.losses, t.recurring, t.flow
FROM unnest(p_shards, p_after_due, p_after_ids, p_others)
    AS s (shard, after_due, after_id, others)
CROSS JOIN LATERAL (
    SELECT task.tenant_id, task.id, task.due_at, task.lane, task.losses,
        task.cron_job_id IS NOT NULL AS recurring, task.flow
    FROM gnomon.task
    WHERE task.state = 0
      AND task.shard = s.shard
      AND (task.due_at, task.id) > (s.after_due, s.after_id)
      AND task.due_at <= p_horizon
      -- A node without a pool looks no further. The coalesce keeps the planner from
      -- other indexes, and from guessing how much of a shard is in a pool.
      AND coalesce(NOT p_pooled OR (
        (p_tenants IS NULL OR task.tenant_id = ANY (p_tenants))
        AND (p_lanes IS NULL OR task.lane = ANY (p_lanes))
        AND (p_types IS NULL OR task.task_type = ANY (p_types))
        AND (p_queues IS NULL OR task.queue = ANY (p_queues))
        AND (s.others IS NULL OR NOT gnomon.in_a_pool(
            s.others, task.tenant_id, task.lane, task.task_type, task.queue
        ))
      ), false)
    ORDER BY task.due_at, task.id
    LIMIT p_most
) AS t;
END
$$;

-- Read again behind the cursors: what is due from `since`, of each shard, to `until`. The rest is as in
-- read_ahead.
CREATE FUNCTION gnomon.read_behind(
    p_shards smallint[],
    p_after_due timestamptz[],
    p_after_ids uuid[],
    p_since timestamptz[],
    p_until timestamptz,
    p_most integer,
    p_pooled boolean,
    p_tenants text[],
    p_lanes smallint[],
    p_types text[],
    p_queues text[],
    p_others jsonb[]
) RETURNS TABLE (
    tenant_id text, id uuid, due_at timestamptz, lane smallint, losses smallint, recurring boolean,
    flow bigint
)
LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
RETURN QUERY
SELECT t.tenant_id, t.id, t.due_at, t.lane, t.losses, t.recurring, t.flow
FROM unnest(p_shards, p_after_due, p_after_ids, p_since, p_others)
    AS s (shard, after_due, after_id, since, others)
CROSS JOIN LATERAL (
    SELECT task.tenant_id, task.id, task.due_at, task.lane, task.losses,
        task.cron_job_id IS NOT NULL AS recurring, task.flow
    FROM gnomon.task
    WHERE task.state = 0
      AND task.shard = s.shard
      AND task.due_at >= s.since
      AND task.due_at <= p_until
      AND (task.due_at, task.id) <= (s.after_due, s.after_id)
      -- A node without a pool looks no further. The coalesce keeps the planner from
      -- other indexes, and from guessing how much of a shard is in a pool.
      AND coalesce(NOT p_pooled OR (
        (p_tenants IS NULL OR task.tenant_id = ANY (p_tenants))
        AND (p_lanes IS NULL OR task.lane = ANY (p_lanes))
        AND (p_types IS NULL OR task.task_type = ANY (p_types))
        AND (p_queues IS NULL OR task.queue = ANY (p_queues))
        AND (s.others IS NULL OR NOT gnomon.in_a_pool(
            s.others, task.tenant_id, task.lane, task.task_type, task.queue
        ))
      ), false)
    ORDER BY task.due_at, task.id
    LIMIT p_most
) AS t;
END
$$;

-- Overdue tasks in the shards of others, the latest of each first: their owner begins at the other
-- end, where it leaves its dead index entries behind, too. At most `each` a shard and `most` in all.
CREATE FUNCTION gnomon.read_overdue(
    p_shards smallint[],
    p_seconds float8,
    p_each integer,
    p_most integer,
    p_losses integer,
    p_pooled boolean,
    p_tenants text[],
    p_lanes smallint[],
    p_types text[],
    p_queues text[]
) RETURNS TABLE (
    tenant_id text, id uuid, due_at timestamptz, lane smallint, losses smallint, recurring boolean,
    flow bigint
)
LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
RETURN QUERY
SELECT t.tenant_id, t.id, t.due_at, t.lane, t.losses, t.recurring, t.flow
FROM unnest(p_shards) AS s (shard)
CROSS JOIN LATERAL (
    SELECT task.tenant_id, task.id, task.due_at, task.lane, task.losses,
        task.cron_job_id IS NOT NULL AS recurring, task.flow
    FROM gnomon.task
    WHERE task.state = 0
      AND task.shard = s.shard
      AND task.due_at <= (SELECT gnomon.now() - make_interval(secs => p_seconds))
      AND task.losses <= p_losses
      -- A node without a pool looks no further. The coalesce keeps the planner from
      -- other indexes, and from guessing how much of a shard is in a pool.
      AND coalesce(NOT p_pooled OR (
        (p_tenants IS NULL OR task.tenant_id = ANY (p_tenants))
        AND (p_lanes IS NULL OR task.lane = ANY (p_lanes))
        AND (p_types IS NULL OR task.task_type = ANY (p_types))
        AND (p_queues IS NULL OR task.queue = ANY (p_queues))
      ), false)
    ORDER BY task.due_at DESC, task.id DESC
    LIMIT p_each
) AS t
LIMIT p_most;
END
$$;

-- The flows that have waiting tasks, in order, after a given one, at most so many: the first task of
-- each, and what it is if that is asked for. Of flows that are known (in the same order) only what is
-- due from `since` on is looked at, and what lies between them is found by one probe for each: so the
-- dead index entries at the head of a flow are not walked again and again.
CREATE FUNCTION gnomon.read_flows(
    p_tenant text,
    p_lane smallint,
    p_flow bigint,
    p_most integer,
    p_typed boolean,
    p_tenants text[],
    p_lanes smallint[],
    p_flows bigint[],
    p_since timestamptz[]
) RETURNS TABLE (
    tenant_id text, lane smallint, flow bigint, due_at timestamptz, task_type text, queue text
)
LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
AS $$
#variable_conflict use_column
DECLARE
    v_known constant integer := cardinality(p_tenants);
    v_next integer := 1;  -- the first of the known ones that was not looked at
    v_found record;
    v_count integer := 0;
BEGIN
    WHILE v_count < p_most LOOP
        IF v_next <= v_known THEN
            SELECT t.tenant_id, t.lane, t.flow, t.due_at, t.id INTO v_found
            FROM gnomon.task AS t
            WHERE t.state = 0
              AND (t.tenant_id, t.lane, t.flow) > (p_tenant, p_lane, p_flow)
              AND (t.tenant_id, t.lane, t.flow)
                < (p_tenants[v_next], p_lanes[v_next], p_flows[v_next])
            ORDER BY t.tenant_id, t.lane, t.flow, t.due_at, t.id
            LIMIT 1;
            IF NOT FOUND THEN
                p_tenant := p_tenants[v_next];
                p_lane := p_lanes[v_next];
                p_flow := p_flows[v_next];
                SELECT t.tenant_id, t.lane, t.flow, t.due_at, t.id INTO v_found
                FROM gnomon.task AS t
                WHERE t.state = 0 AND t.tenant_id = p_tenant AND t.lane = p_lane AND t.flow = p_flow
                  AND t.due_at >= p_since[v_next]
                ORDER BY t.due_at, t.id
                LIMIT 1;
                v_next := v_next + 1;
                CONTINUE WHEN NOT FOUND;
            END IF;
        ELSE
            SELECT t.tenant_id, t.lane, t.flow, t.due_at, t.id INTO v_found
            FROM gnomon.task AS t
            WHERE t.state = 0 AND (t.tenant_id, t.lane, t.flow) > (p_tenant, p_lane, p_flow)
            ORDER BY t.tenant_id, t.lane, t.flow, t.due_at, t.id
            LIMIT 1;
            EXIT WHEN NOT FOUND;
        END IF;
        p_tenant := v_found.tenant_id;
        p_lane := v_found.lane;
        p_flow := v_found.flow;
        v_count := v_count + 1;
        tenant_id := p_tenant;
        lane := p_lane;
        flow := p_flow;
        due_at := v_found.due_at;
        IF p_typed THEN
            SELECT t.task_type, t.queue INTO task_type, queue
            FROM gnomon.task AS t WHERE t.tenant_id = p_tenant AND t.id = v_found.id;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;

-- The next due tasks of each flow in these shards, after the place up to which it was read.
CREATE FUNCTION gnomon.read_heads(
    p_tenants text[],
    p_lanes smallint[],
    p_flows bigint[],
    p_after_due timestamptz[],
    p_after_ids uuid[],
    p_most integer[],
    p_shards smallint[]
) RETURNS TABLE (
    tenant_id text, id uuid, due_at timestamptz, lane smallint, losses smallint, recurring boolean,
    flow bigint
)
LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
RETURN QUERY
SELECT t.tenant_id, t.id, t.due_at, t.lane, t.losses, t.recurring, t.flow
FROM unnest(
    p_tenants, p_lanes, p_flows, p_after_due, p_after_ids, p_most
) AS f (tenant_id, lane, flow, after_due, after_id, most)
CROSS JOIN LATERAL (
    SELECT task.tenant_id, task.id, task.due_at, task.lane, task.losses,
        task.cron_job_id IS NOT NULL AS recurring, task.flow
    FROM gnomon.task
    WHERE task.state = 0
      AND task.tenant_id = f.tenant_id
      AND task.lane = f.lane
      AND task.flow = f.flow
      AND (task.due_at, task.id) > (f.after_due, f.after_id)
      AND task.due_at <= (SELECT gnomon.now())
      AND task.shard = ANY (p_shards)
    ORDER BY task.due_at, task.id
    LIMIT f.most
) AS t;
END
$$;

-- The cron jobs of each shard that fire by then, soonest first, at most so many a shard.
CREATE FUNCTION gnomon.read_due_jobs(
    p_shards smallint[],
    p_until timestamptz,
    p_most integer
) RETURNS SETOF gnomon.cron_job
LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
RETURN QUERY
SELECT j.*
FROM unnest(p_shards) AS s (shard)
CROSS JOIN LATERAL (
    SELECT *
    FROM gnomon.cron_job
    WHERE cron_job.shard = s.shard AND cron_job.next_fire_at <= p_until
    ORDER BY cron_job.next_fire_at
    LIMIT p_most
) AS j;
END
$$;

-- These look up rows by key, of tables that have few rows for long and then very many.
ALTER FUNCTION gnomon.exchange_permits SET enable_seqscan = off;
ALTER FUNCTION gnomon.drop_dead_leases SET enable_seqscan = off;
ALTER FUNCTION gnomon.admit SET enable_seqscan = off;

-- As in 0001_tasks. The state is hidden from the planner, as in claim.sql: this is read by key.
CREATE OR REPLACE VIEW gnomon.try WITH (security_invoker = true) AS
    SELECT tenant_id, task_id, fence, attempt, outcome, worker, started_at, finished_at, error,
           response_status, response_body, NULL::json AS result
    FROM gnomon.execution
    UNION ALL
    SELECT tenant_id, id, fence, attempt, 0::smallint, worker, started_at, finished_at, NULL,
           response_status, response_body, result
    FROM gnomon.task_archive
    WHERE state = 10
    UNION ALL
    SELECT t.tenant_id, t.id, t.fence, t.attempt, NULL, n.name, t.started_at, NULL, NULL,
           NULL, NULL, NULL
    FROM gnomon.task t LEFT JOIN gnomon.node n ON n.incarnation = t.node
    WHERE t.state + 0 = 1;
