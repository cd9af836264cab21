-- The gate that every task of a workflow passes when it ends or dies: uses the edges of these nodes,
-- counts for each child once a batch, and lets those start whose turn has come. Gives them, and a row
-- without an id where something is left for the chore of workflows.
-- p_states: of the tasks: 4 a dead letter, from 10 on as in the archive, null: it was deleted.
-- p_most: edges that are used at once; a chore uses the rest.
-- Whoever calls holds the rows of these tasks. The rows of children are locked in the order of their ids,
-- each is written once, and nobody who holds one waits for the row of a task: so nobody waits in a circle.
CREATE OR REPLACE FUNCTION gnomon.pass_nodes(
    p_tenants text[], p_ids uuid[], p_states smallint[], p_results json[], p_most integer DEFAULT 2000
) RETURNS TABLE (
    tenant_id text, id uuid, due_at timestamptz, lane smallint, flow bigint, by_handler boolean
)
    LANGUAGE plpgsql ROWS 10 SET search_path = pg_catalog
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off
    AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := gnomon.now();
    v_node record;  -- a child, with what is counted for it; or a node of which edges are left
    v_waits integer;
    v_succeeded integer;
    v_failed integer;
    v_ready boolean;
    v_decided boolean;
    v_step smallint;
    v_watched boolean;
    v_left text;
    v_state smallint;
    v_fired boolean;
BEGIN
    FOR v_node IN
        WITH ended AS MATERIALIZED (
            SELECT e.tenant_id, e.id, e.result, n.run_id, n.node, e.state IS NOT DISTINCT FROM 10 AS completed,
                CASE
                    WHEN e.state = 10 OR (e.state = 4 AND n.on_failure = 2) THEN 1
                    WHEN e.state = 4 AND n.on_failure = 1 THEN 3
                    WHEN e.state = 4 THEN 5  -- it died, and has not ended
                    WHEN e.state IN (12, 13) THEN 2
                    WHEN n.step = 2 THEN 3
                    ELSE 4
                END AS becomes,
                -- It was ended before its turn: until those that it waits for have ended, their
                -- way to the end of the run leads through it.
                (n.rule = 0 OR n.compensates IS NOT NULL OR n.elements IS NOT NULL)
                    AND n.waits > 0 AS early,
                -- The list of a mapped node is longer than one result.
                CASE WHEN n.elements IS NULL THEN 65536 ELSE 1048576 END AS most_bytes
            FROM unnest(p_tenants, p_ids, p_states, p_results) AS e (tenant_id, id, state, result)
            CROSS JOIN LATERAL (
                SELECT w.run_id, w.node, w.on_failure, w.step, w.rule, w.waits, w.compensates,
                    w.elements
                FROM gnomon.workflow_node AS w
                WHERE w.tenant_id = e.tenant_id AND w.task_id = e.id
                OFFSET 0
            ) AS n
        ), kept AS (
            INSERT INTO gnomon.workflow_result
                (tenant_id, task_id, run_id, node, state, finished_at, output, too_large, completed)
            SELECT tenant_id, id, run_id, node, becomes, v_now,
                CASE WHEN becomes = 1 AND octet_length(result::text) <= most_bytes THEN result END,
                becomes = 1 AND coalesce(octet_length(result::text) > most_bytes, false), completed
            FROM ended
            WHERE becomes < 5
            -- A dead letter that had counted already was tried again, and has done its work.
            ON CONFLICT (tenant_id, task_id) DO UPDATE
            SET completed = true, output = excluded.output, too_large = excluded.too_large
            WHERE excluded.completed AND NOT workflow_result.completed
        ), picked AS MATERIALIZED (
            SELECT e.tenant_id, g.ctid AS address, g.child_id, e.becomes
            FROM ended AS e
            CROSS JOIN LATERAL (
                SELECT x.ctid, x.child_id
                FROM gnomon.workflow_edge AS x
                WHERE x.tenant_id = e.tenant_id AND x.parent_id = e.id
                  AND (e.becomes < 5 OR x.at_death)
                OFFSET 0
            ) AS g
            WHERE NOT e.early
            LIMIT p_most
        ), used AS (
            -- Edges are never changed, so none is at another place by now.
            DELETE FROM gnomon.workflow_edge AS x
            USING picked AS p
            WHERE x.ctid = p.address
            RETURNING p.tenant_id, p.child_id, p.becomes
        ), counted AS MATERIALIZED (
            SELECT u.tenant_id, u.child_id AS task_id, count(*) AS ended,
                count(*) FILTER (WHERE u.becomes = 1) AS succeeded,
                count(*) FILTER (WHERE u.becomes IN (2, 5)) AS failed
            FROM used AS u
            GROUP BY u.tenant_id, u.child_id
            UNION ALL
            SELECT e.tenant_id, e.id, 0, 0, 0
            FROM ended AS e
            WHERE NOT e.early AND (SELECT count(*) FROM picked) >= p_most
            ORDER BY 1, 2
        )
        SELECT c.tenant_id, c.task_id, c.ended, c.succeeded AS now_succeeded, c.failed AS now_failed, n.*
        FROM counted AS c
        CROSS JOIN LATERAL (
            SELECT w.run_id, w.node, w.rule, w.parents, w.waits, w.succeeded, w.failed, w.decided,
                w.template IS NOT NULL AS templated, w.compensates, w.elements
            FROM gnomon.workflow_node AS w
            WHERE w.tenant_id = c.tenant_id AND w.task_id = c.task_id
            FOR NO KEY UPDATE
        ) AS n
    LOOP
        IF v_node.ended = 0 THEN
            UPDATE gnomon.workflow_node AS n SET step = 3
            WHERE n.tenant_id = v_node.tenant_id AND n.task_id = v_node.task_id AND n.step = 0;
            v_left := v_node.tenant_id;
            CONTINUE;
        END IF;
        v_waits := v_node.waits - v_node.ended;
        v_succeeded := v_node.succeeded + v_node.now_succeeded;
        v_failed := v_node.failed + v_node.now_failed;
        v_ready := CASE
            WHEN v_node.rule = 1 OR v_node.elements IS NOT NULL THEN v_waits = 0
            WHEN v_node.rule = 0 THEN v_waits = 0 AND v_succeeded = v_node.parents
            WHEN v_node.rule = 2 THEN v_failed > 0
            ELSE v_succeeded > 0
        END;
        v_decided := v_node.decided OR v_ready OR v_waits = 0;
        v_step := NULL;  -- as it is
        id := NULL;
        IF v_node.decided OR NOT v_decided THEN
            NULL;  -- it is only counted
        ELSIF v_node.node = '' THEN
            UPDATE gnomon.workflow_run AS r
            SET state = CASE
                    WHEN r.state = 1 THEN 12
                    WHEN r.state = 2 AND NOT r.compensated THEN 2
                    WHEN r.state = 2 THEN 13
                    WHEN EXISTS (
                        SELECT FROM gnomon.workflow_result AS e
                        WHERE e.tenant_id = r.tenant_id AND e.run_id = r.id AND e.state = 2
                    ) THEN 11
                    ELSE 10
                END,
                paused = false, held = false,
                finished_at = CASE WHEN r.state <> 2 OR r.compensated THEN v_now END
            WHERE r.tenant_id = v_node.tenant_id AND r.id = v_node.run_id AND r.state < 10
            RETURNING r.state, r.cron_job_id IS NOT NULL INTO v_state, v_fired;
            v_step := 0;
            IF v_state = 2 THEN
                -- All has ended that a rollback waits for: the chore makes its tasks.
                v_step := 1;
                v_left := v_node.tenant_id;
            ELSIF v_fired THEN
                -- The run of the cron job ends with it. One that cannot be told now looks again by itself.
                UPDATE gnomon.task AS t
                SET due_at = v_now
                FROM (
                    SELECT f.ctid FROM gnomon.task AS f
                    WHERE f.tenant_id = v_node.tenant_id AND f.id = v_node.run_id AND f.state + 0 = 0
                    FOR UPDATE SKIP LOCKED
                ) AS f
                WHERE t.ctid = f.ctid
                RETURNING t.tenant_id, t.id, t.due_at, t.lane, t.flow, gnomon.is_by_handler(t.target)
                INTO tenant_id, id, due_at, lane, flow, by_handler;
            END IF;
        ELSE
            IF v_ready AND NOT v_node.templated THEN
                UPDATE gnomon.task AS t
                SET state = 0, id = t.id, due_at = v_now
                FROM (
                    SELECT f.ctid FROM gnomon.task AS f
                    WHERE f.tenant_id = v_node.tenant_id AND f.id = v_node.task_id
                      AND f.state + 0 = 3
                      AND EXISTS (
                          SELECT FROM gnomon.workflow_run AS r
                          WHERE r.tenant_id = v_node.tenant_id AND r.id = v_node.run_id
                            AND ((r.state = 0 AND NOT r.paused)
                                OR (r.state = 2 AND v_node.compensates IS NOT NULL))
                      )
                    FOR UPDATE SKIP LOCKED
                ) AS f
                WHERE t.ctid = f.ctid
                RETURNING
                    t.tenant_id, t.id, t.due_at, t.lane, t.flow, gnomon.is_by_handler(t.target),
                    t.sla_seconds IS NOT NULL OR t.warn_after_seconds IS NOT NULL
                INTO tenant_id, id, due_at, lane, flow, by_handler, v_watched;
                IF v_watched THEN
                    PERFORM gnomon.watch_tasks(tenant_id, ARRAY[id]);
                END IF;
            END IF;
            v_step := CASE WHEN id IS NOT NULL THEN 0 WHEN v_ready THEN 1 ELSE 2 END;
            IF id IS NULL THEN
                v_left := v_node.tenant_id;
            END IF;
        END IF;
        UPDATE gnomon.workflow_node AS n
        SET waits = v_waits, succeeded = v_succeeded, failed = v_failed, decided = v_decided,
            step = coalesce(v_step, n.step)
        WHERE n.tenant_id = v_node.tenant_id AND n.task_id = v_node.task_id;
        IF id IS NOT NULL THEN
            RETURN NEXT;
        END IF;
    END LOOP;
    IF 4 = ANY (p_states) THEN
        UPDATE gnomon.workflow_run AS r
        SET state = CASE WHEN r.rolls_back THEN 2 ELSE 1 END,
            reason = 'node ' || d.node || ' failed, and the run is fail_fast'
        FROM (
            SELECT n.tenant_id, n.run_id, min(n.node) AS node
            FROM unnest(p_tenants, p_ids, p_states) AS e (tenant_id, id, state)
            CROSS JOIN LATERAL (
                SELECT w.tenant_id, w.run_id, w.node
                FROM gnomon.workflow_node AS w
                WHERE w.tenant_id = e.tenant_id AND w.task_id = e.id AND w.on_failure = 0
                OFFSET 0
            ) AS n
            WHERE e.state = 4
            GROUP BY n.tenant_id, n.run_id
        ) AS d
        WHERE r.tenant_id = d.tenant_id AND r.id = d.run_id AND r.fail_fast AND r.state = 0;
        IF FOUND THEN
            v_left := p_tenants[1];
        END IF;
    END IF;
    IF v_left IS NOT NULL THEN
        tenant_id := v_left;
        id := NULL;
        RETURN NEXT;
    END IF;
END
$$;
