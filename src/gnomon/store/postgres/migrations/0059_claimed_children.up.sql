-- Claims tasks that the calling statement has made due, for the node that sends it: see settle.sql. They are
-- claimed as in claim.sql, and only plain ones: no suspects, and no runs of cron jobs, whose jobs are asked.
-- Whoever calls holds the rows of these tasks, and of others. So nobody is waited for here: where somebody
-- holds the row of the node, nothing is claimed.
-- p_most: how many at most, the most urgent first. p_shards: only in these, null: in all. p_pools: only what
-- one of these serves, null: whatever it is.
CREATE FUNCTION gnomon.claim_children(
    p_node uuid, p_grace float8, p_most integer, p_shards smallint[], p_pools jsonb, p_tenants text[],
    p_ids uuid[]
) RETURNS SETOF gnomon.task
    LANGUAGE plpgsql ROWS 1 SET search_path = pg_catalog
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off
    -- For few rows any other plan is cheaper, as PostgreSQL has it, and is made for longer than it runs.
    SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    v_now timestamptz := gnomon.now();
BEGIN
    PERFORM FROM gnomon.node AS n
    WHERE n.incarnation = p_node AND NOT n.dead
    FOR KEY SHARE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY
    UPDATE gnomon.task AS t
    SET state = 1,
        fence = t.fence + 1,
        attempt = t.attempt + 1,
        begun = false,
        started_at = v_now,
        run_until = v_now + make_interval(secs => t.timeout_seconds + p_grace),
        node = p_node
    WHERE t.ctid = ANY (ARRAY(
        SELECT f.ctid
        FROM unnest(p_tenants, p_ids) AS k (tenant_id, id)
        CROSS JOIN LATERAL (
            SELECT c.ctid, c.lane
            FROM gnomon.task AS c
            WHERE c.tenant_id = k.tenant_id AND c.id = k.id
              AND c.state + 0 = 0
              AND c.due_at <= v_now
              AND NOT c.gated AND c.losses = 0 AND c.cron_job_id IS NULL
              AND (p_shards IS NULL OR c.shard = ANY (p_shards))
              AND (
                  p_pools IS NULL
                  OR gnomon.in_a_pool(
                      p_pools, c.tenant_id, c.lane, c.task_type, c.queue, gnomon.is_by_handler(c.target)
                  )
              )
            OFFSET 0
        ) AS f
        ORDER BY f.lane, k.id
        LIMIT p_most
    ))
    RETURNING t.*;
END
$$;
