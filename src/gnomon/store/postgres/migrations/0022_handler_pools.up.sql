-- Pools by handler: a node serves webhooks, the handlers of its app, or both. What it reads is asked
-- for by that, so that a task whose handler it does not have is neither read nor claimed.
-- The functions of the same names with fewer arguments are for the version before; a later migration
-- drops them.

-- Whether a handler runs a task with this target. What cannot be read is taken for a webhook: whoever
-- claims it makes a dead letter of it. Targets as Gnomon writes them are told by how they begin: to
-- parse them would take as long as to read the row.
CREATE FUNCTION gnomon.is_by_handler(target json) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
SELECT CASE
    WHEN target::text COLLATE "C" LIKE '{"type":"http",%' THEN false
    WHEN target::text COLLATE "C" LIKE '{"type":"python",%' THEN true
    ELSE coalesce(target ->> 'type' = 'python', false)
END
$$;

-- Whether any of some pools serves a task. A pool that does not speak of webhooks or handlers, as none
-- did before, serves all of them.
CREATE FUNCTION gnomon.in_a_pool(
    pools jsonb, tenant_id text, lane smallint, task_type text, queue text, by_handler boolean
) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
SELECT EXISTS (
    SELECT
    FROM jsonb_array_elements(in_a_pool.pools) AS p (pool)
    WHERE coalesce(p.pool -> 'tenants' ? in_a_pool.tenant_id, true)
      AND coalesce(p.pool -> 'lanes' @> to_jsonb(in_a_pool.lane), true)
      AND coalesce(p.pool -> 'types' ? in_a_pool.task_type, true)
      -- A task without a queue is in no list of queues.
      AND coalesce(p.pool -> 'queues' ? coalesce(in_a_pool.queue, ''), true)
      AND CASE
          WHEN in_a_pool.by_handler THEN coalesce(p.pool -> 'handlers' ? in_a_pool.task_type, true)
          ELSE coalesce((p.pool ->> 'webhooks')::boolean, true)
      END
)
$$;

-- Read ahead: as before, of the webhooks or handlers that the node serves; handlers: their task types,
-- null for any. by_handler of what is found is worked out only for a node that serves both.
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
    p_webhooks boolean,
    p_handlers text[],
    p_others jsonb[]
) RETURNS TABLE (
    tenant_id text, id uuid, due_at timestamptz, lane smallint, losses smallint, recurring boolean,
    flow bigint, by_handler boolean
)
LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
RETURN QUERY
SELECT t.tenant_id, t.id, t.due_at, t.lane, t.losses, t.recurring, t.flow, t.by_handler
FROM unnest(p_shards, p_after_due, p_after_ids, p_others)
    AS s (shard, after_due, after_id, others)
CROSS JOIN LATERAL (
    SELECT task.tenant_id, task.id, task.due_at, task.lane, task.losses,
        task.cron_job_id IS NOT NULL AS recurring, task.flow,
        CASE
            WHEN NOT p_webhooks THEN true
            WHEN p_handlers = '{}' THEN false
            ELSE gnomon.is_by_handler(task.target)
        END AS by_handler
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
        -- The cheap questions first: of a webhook, what is called must be read.
        AND CASE
            WHEN p_webhooks AND p_handlers IS NULL THEN true
            WHEN NOT p_webhooks AND p_handlers IS NOT NULL AND task.task_type <> ALL (p_handlers)
                THEN false
            WHEN gnomon.is_by_handler(task.target)
                THEN p_handlers IS NULL OR task.task_type = ANY (p_handlers)
            ELSE p_webhooks
        END
        AND (s.others IS NULL OR NOT gnomon.in_a_pool(
            s.others, task.tenant_id, task.lane, task.task_type, task.queue,
            gnomon.is_by_handler(task.target)
        ))
      ), false)
    ORDER BY task.due_at, task.id
    LIMIT p_most
) AS t;
END
$$;

-- Read again behind the cursors: see read_ahead.
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
    p_webhooks boolean,
    p_handlers text[],
    p_others jsonb[]
) RETURNS TABLE (
    tenant_id text, id uuid, due_at timestamptz, lane smallint, losses smallint, recurring boolean,
    flow bigint, by_handler boolean
)
LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
RETURN QUERY
SELECT t.tenant_id, t.id, t.due_at, t.lane, t.losses, t.recurring, t.flow, t.by_handler
FROM unnest(p_shards, p_after_due, p_after_ids, p_since, p_others)
    AS s (shard, after_due, after_id, since, others)
CROSS JOIN LATERAL (
    SELECT task.tenant_id, task.id, task.due_at, task.lane, task.losses,
        task.cron_job_id IS NOT NULL AS recurring, task.flow,
        CASE
            WHEN NOT p_webhooks THEN true
            WHEN p_handlers = '{}' THEN false
            ELSE gnomon.is_by_handler(task.target)
        END AS by_handler
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
        -- The cheap questions first: of a webhook, what is called must be read.
        AND CASE
            WHEN p_webhooks AND p_handlers IS NULL THEN true
            WHEN NOT p_webhooks AND p_handlers IS NOT NULL AND task.task_type <> ALL (p_handlers)
                THEN false
            WHEN gnomon.is_by_handler(task.target)
                THEN p_handlers IS NULL OR task.task_type = ANY (p_handlers)
            ELSE p_webhooks
        END
        AND (s.others IS NULL OR NOT gnomon.in_a_pool(
            s.others, task.tenant_id, task.lane, task.task_type, task.queue,
            gnomon.is_by_handler(task.target)
        ))
      ), false)
    ORDER BY task.due_at, task.id
    LIMIT p_most
) AS t;
END
$$;

-- Overdue tasks in the shards of others: as before. Where a node has a pool, only so many of a shard
-- are looked at: a million tasks that nobody handles must not be walked by every idle node each second.
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
    p_queues text[],
    p_webhooks boolean,
    p_handlers text[]
) RETURNS TABLE (
    tenant_id text, id uuid, due_at timestamptz, lane smallint, losses smallint, recurring boolean,
    flow bigint, by_handler boolean
)
LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
RETURN QUERY
SELECT t.tenant_id, t.id, t.due_at, t.lane, t.losses, t.recurring, t.flow, t.by_handler
FROM unnest(p_shards) AS s (shard)
CROSS JOIN LATERAL (
    SELECT task.tenant_id, task.id, task.due_at, task.lane, task.losses,
        task.cron_job_id IS NOT NULL AS recurring, task.flow,
        CASE
            WHEN NOT p_webhooks THEN true
            WHEN p_handlers = '{}' THEN false
            ELSE gnomon.is_by_handler(task.target)
        END AS by_handler
    FROM (
        SELECT *
        FROM gnomon.task
        WHERE task.state = 0
          AND task.shard = s.shard
          AND task.due_at <= (SELECT gnomon.now() - make_interval(secs => p_seconds))
          AND task.losses <= p_losses
        ORDER BY task.due_at DESC, task.id DESC
        LIMIT CASE WHEN p_pooled THEN greatest(p_each, 200) ELSE p_each END
    ) AS task
    WHERE coalesce(NOT p_pooled OR (
        (p_tenants IS NULL OR task.tenant_id = ANY (p_tenants))
        AND (p_lanes IS NULL OR task.lane = ANY (p_lanes))
        AND (p_types IS NULL OR task.task_type = ANY (p_types))
        AND (p_queues IS NULL OR task.queue = ANY (p_queues))
        AND CASE
            WHEN p_webhooks AND p_handlers IS NULL THEN true
            WHEN NOT p_webhooks AND p_handlers IS NOT NULL AND task.task_type <> ALL (p_handlers)
                THEN false
            WHEN gnomon.is_by_handler(task.target)
                THEN p_handlers IS NULL OR task.task_type = ANY (p_handlers)
            ELSE p_webhooks
        END
    ), false)
    ORDER BY task.due_at DESC, task.id DESC
    LIMIT p_each
) AS t
LIMIT p_most;
END
$$;

-- The flows that have waiting tasks: as before, and always with what they are.
CREATE FUNCTION gnomon.read_flows(
    p_tenant text,
    p_lane smallint,
    p_flow bigint,
    p_most integer,
    p_tenants text[],
    p_lanes smallint[],
    p_flows bigint[],
    p_since timestamptz[]
) RETURNS TABLE (
    tenant_id text, lane smallint, flow bigint, due_at timestamptz, task_type text, queue text,
    by_handler boolean
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
            SELECT t.tenant_id, t.lane, t.flow, t.due_at, t.task_type, t.queue, t.target
            INTO v_found
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
                SELECT t.tenant_id, t.lane, t.flow, t.due_at, t.task_type, t.queue, t.target
                INTO v_found
                FROM gnomon.task AS t
                WHERE t.state = 0 AND t.tenant_id = p_tenant AND t.lane = p_lane AND t.flow = p_flow
                  AND t.due_at >= p_since[v_next]
                ORDER BY t.due_at, t.id
                LIMIT 1;
                v_next := v_next + 1;
                CONTINUE WHEN NOT FOUND;
            END IF;
        ELSE
            SELECT t.tenant_id, t.lane, t.flow, t.due_at, t.task_type, t.queue, t.target
            INTO v_found
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
        task_type := v_found.task_type;
        queue := v_found.queue;
        by_handler := gnomon.is_by_handler(v_found.target);
        RETURN NEXT;
    END LOOP;
END
$$;
