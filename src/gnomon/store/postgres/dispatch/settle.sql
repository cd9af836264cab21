-- Write the outcomes of a batch of running tasks, each only if its fence and its node are still
-- the ones that the execution was started with. Never by state: see task_running.
-- verdict: 0 complete, 1 retry, 2 dead-letter, 3 release, 4 expire. outcome null: there was no execution.
-- unbegun: only if it has not begun, which whoever found it so cannot know to be still true.
-- A requested cancellation is resolved here: success wins, anything else becomes CANCELLED. One
-- that is requested while this runs makes the settlement miss; its second attempt finds it.
-- $21: the node that takes tasks of workflows which become due here, null: nobody does. $22 seconds of
-- grace after their timeouts, $23 how many, $24 in which shards, $25 of which pools: see
-- gnomon.claim_children.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
), counting AS MATERIALIZED (
    -- No trigger notes the members of batches and the outcomes that end here: they are counted and noted
    -- below.
    SELECT set_config('gnomon.counts_members', 'on', true) AS counts,
        set_config('gnomon.notes_outcomes', 'on', true) AS notes
), found AS MATERIALIZED (
    -- A column of one element holds for the whole batch; it is looked at once, by (SELECT ...).
    -- The address is where the claim left the row, or else one probe of the primary key; a join could be
    -- made in other ways. It may lead to nothing, or to another row by now, and what changes after a
    -- look is not written: key, fence and node are compared again, with what is there by then (the key
    -- by IS NOT DISTINCT FROM, which no index answers to).
    SELECT
        coalesce(r.tenant_id, (SELECT CASE WHEN cardinality($1::text[]) = 1 THEN ($1::text[])[1] END)) AS tenant_id,
        r.id,
        coalesce(r.fence, (SELECT CASE WHEN cardinality($3::bigint[]) = 1 THEN ($3::bigint[])[1] END)) AS fence,
        coalesce(r.node, (SELECT CASE WHEN cardinality($4::uuid[]) = 1 THEN ($4::uuid[])[1] END)) AS node,
        coalesce(r.verdict, (SELECT CASE WHEN cardinality($5::smallint[]) = 1 THEN ($5::smallint[])[1] END)) AS verdict,
        coalesce(r.outcome, (SELECT CASE WHEN cardinality($6::smallint[]) = 1 THEN ($6::smallint[])[1] END)) AS outcome,
        coalesce(r.delay, (SELECT CASE WHEN cardinality($7::float8[]) = 1 THEN ($7::float8[])[1] END)) AS delay,
        coalesce(r.spends, (SELECT CASE WHEN cardinality($8::boolean[]) = 1 THEN ($8::boolean[])[1] END)) AS spends,
        coalesce(r.losses, (SELECT CASE WHEN cardinality($9::smallint[]) = 1 THEN ($9::smallint[])[1] END)) AS losses,
        to_timestamp(r.started_at) AS started_at,
        to_timestamp(r.finished_at) AS finished_at,
        coalesce(r.worker, (SELECT CASE WHEN cardinality($12::text[]) = 1 THEN ($12::text[])[1] END)) AS worker,
        coalesce(r.error, (SELECT CASE WHEN cardinality($13::text[]) = 1 THEN ($13::text[])[1] END)) AS error,
        coalesce(r.response_status, (SELECT CASE WHEN cardinality($14::smallint[]) = 1 THEN ($14::smallint[])[1] END)) AS response_status,
        coalesce(r.response_body, (SELECT CASE WHEN cardinality($15::text[]) = 1 THEN ($15::text[])[1] END)) AS response_body,
        coalesce(r.result, (SELECT CASE WHEN cardinality($16::json[]) = 1 THEN ($16::json[])[1] END)) AS result,
        coalesce(r.unbegun, (SELECT CASE WHEN cardinality($17::boolean[]) = 1 THEN ($17::boolean[])[1] END)) AS unbegun,
        coalesce(r.traceback, (SELECT CASE WHEN cardinality($18::text[]) = 1 THEN ($18::text[])[1] END)) AS traceback,
        coalesce(r.fingerprint, (SELECT CASE WHEN cardinality($19::bigint[]) = 1 THEN ($19::bigint[])[1] END)) AS fingerprint,
        coalesce(r.address, (
            SELECT task.ctid FROM gnomon.task
            WHERE task.tenant_id = coalesce(r.tenant_id, (SELECT CASE WHEN cardinality($1::text[]) = 1 THEN ($1::text[])[1] END))
              AND task.id = r.id
        )) AS address,
        r.place
    -- By (SELECT ...), which hides how many they are: the plan is the same for one and for a thousand.
    FROM unnest(
        (SELECT $1::text[]), (SELECT $2::uuid[]), (SELECT $3::bigint[]), (SELECT $4::uuid[]),
        (SELECT $5::smallint[]), (SELECT $6::smallint[]), (SELECT $7::float8[]),
        (SELECT $8::boolean[]), (SELECT $9::smallint[]), (SELECT $10::float8[]),
        (SELECT $11::float8[]), (SELECT $12::text[]), (SELECT $13::text[]),
        (SELECT $14::smallint[]), (SELECT $15::text[]), (SELECT $16::json[]),
        (SELECT $17::boolean[]), (SELECT $18::text[]), (SELECT $19::bigint[]),
        (SELECT $20::tid[])
    ) WITH ORDINALITY AS r (
        tenant_id, id, fence, node, verdict, outcome, delay, spends, losses, started_at,
        finished_at, worker, error, response_status, response_body, result, unbegun,
        traceback, fingerprint, address, place
    )
    WHERE (SELECT counts || notes FROM counting) = 'onon'  -- before anything is deleted
), gone AS (
    DELETE FROM gnomon.task AS t
    USING found AS r
    WHERE t.ctid = r.address AND t.tenant_id IS NOT DISTINCT FROM r.tenant_id
      AND t.id IS NOT DISTINCT FROM r.id AND t.fence = r.fence AND t.node = r.node
      AND (r.verdict IN (0, 4) OR t.cancel_requested)
      AND NOT (r.unbegun AND t.begun)
    RETURNING
        {t.carried}, t.payload_size, t.payload,
        CASE WHEN r.verdict = 0 THEN 10 WHEN t.cancel_requested THEN 11 ELSE 12 END AS state,
        CASE WHEN r.outcome IS NOT NULL THEN coalesce(r.started_at, t.started_at) END AS started_at,
        r.finished_at,
        t.attempt - CASE WHEN r.outcome IS NULL THEN 1 ELSE 0 END AS attempt,
        coalesce(r.error, t.last_error) AS last_error, r.worker, r.response_status, r.response_body,
        r.result, r.outcome, r.error, r.traceback, r.place
), archived AS (
    INSERT INTO gnomon.task_archive (
        {carried}, state, started_at, finished_at, attempt, payload_size, payload, payload_removed,
        last_error, worker, response_status, response_body, result
    )
    SELECT
        {g.carried}, g.state, g.started_at, coalesce(g.finished_at, m.now), g.attempt,
        CASE WHEN NOT r.removed THEN g.payload_size END, CASE WHEN NOT r.removed THEN g.payload END,
        r.removed AND (g.payload_size IS NOT NULL OR g.payload IS NOT NULL),
        g.last_error, g.worker, g.response_status, g.response_body, g.result
    FROM gone AS g
    CROSS JOIN moment AS m
    CROSS JOIN LATERAL (SELECT gnomon.removes_payload(g.keep_payload, g.state) AS removed) AS r
), dropped AS MATERIALIZED (
    -- Payloads that are kept apart, and not any longer. Nothing is called where there are none.
    SELECT d.tenant_id, d.bytes
    FROM (
        SELECT array_agg(g.tenant_id) AS tenants, array_agg(g.id) AS ids
        FROM gone AS g
        WHERE g.payload_size IS NOT NULL AND gnomon.removes_payload(g.keep_payload, g.state)
        HAVING count(*) > 0
    ) AS k
    CROSS JOIN LATERAL gnomon.drop_payloads(k.tenants, k.ids) AS d
), kept AS (
    UPDATE gnomon.task AS t
    SET state = CASE WHEN r.verdict = 2 THEN 4 ELSE 0 END,
        fence = t.fence + 1,
        attempt = t.attempt - CASE WHEN r.outcome IS NULL THEN 1 ELSE 0 END,
        node = NULL,
        run_until = NULL,
        started_at = CASE WHEN r.outcome IS NOT NULL THEN coalesce(r.started_at, t.started_at) END,
        -- Also a released task waits from now on: its shard may be another node's, and repair
        -- scans look no further back than the oldest open transaction.
        -- One that was claimed ahead of its time keeps that.
        due_at = CASE WHEN r.outcome IS NULL THEN greatest(t.due_at, m.now) ELSE m.now END
            + make_interval(secs => r.delay),
        retries_left = t.retries_left - CASE WHEN r.spends THEN 1 ELSE 0 END,
        losses = r.losses,
        last_error = coalesce(r.error, t.last_error),
        fingerprint = r.fingerprint  -- of a dead letter; null for all others
    FROM found AS r, moment AS m
    WHERE t.ctid = r.address AND t.tenant_id IS NOT DISTINCT FROM r.tenant_id
      AND t.id IS NOT DISTINCT FROM r.id AND t.fence = r.fence AND t.node = r.node
      AND r.verdict IN (1, 2, 3) AND NOT t.cancel_requested
      AND NOT (r.unbegun AND t.begun)
    RETURNING
        t.tenant_id, t.id, r.fence, t.state, t.due_at, t.attempt, r.outcome, t.started_at,
        r.finished_at, r.worker, r.error, r.response_status, r.response_body, r.traceback,
        t.cron_job_id, t.workflow_run_id, t.task_type, t.last_error, r.place
), passed AS MATERIALIZED (
    -- Nodes of workflows that have ended or died. Nothing is called where there are none.
    SELECT p.*
    FROM (
        SELECT array_agg(e.tenant_id) AS tenants, array_agg(e.id) AS ids,
            array_agg(e.state::smallint) AS states, array_agg(e.result) AS results
        FROM (
            -- What a webhook answers is its result.
            SELECT tenant_id, id, state, coalesce(result, to_json(response_body)) AS result
            FROM gone WHERE workflow_run_id IS NOT NULL
            UNION ALL
            SELECT tenant_id, id, state, NULL FROM kept
            WHERE workflow_run_id IS NOT NULL AND state = 4
        ) AS e
        HAVING count(*) > 0
    ) AS k
    CROSS JOIN LATERAL gnomon.pass_nodes(k.tenants, k.ids, k.states, k.results) AS p
), taken AS MATERIALIZED (
    -- Those of them that the node takes at once. Nothing is called where it takes none.
    SELECT t.*
    FROM (
        SELECT array_agg(tenant_id) AS tenants, array_agg(id) AS ids
        FROM passed
        WHERE id IS NOT NULL AND $21::uuid IS NOT NULL
        HAVING count(*) > 0
    ) AS k
    CROSS JOIN LATERAL gnomon.claim_children(
        $21::uuid, $22::float8, $23::integer, $24::smallint[], $25::jsonb, k.tenants, k.ids
    ) AS t
), counted AS MATERIALIZED (
    -- Members of batches that have ended; dead letters are noted. Nothing is called where there are none.
    SELECT p.*
    FROM (
        SELECT array_agg(e.tenant_id) AS tenants, array_agg(e.batch_id) AS ids,
            array_agg(e.succeeded) AS succeeded, array_agg(e.failed) AS failed,
            array_agg(e.cancelled) AS cancelled
        FROM (
            SELECT tenant_id, batch_id, count(*) FILTER (WHERE state = 10)::integer AS succeeded,
                count(*) FILTER (WHERE state = 12)::integer AS failed,
                count(*) FILTER (WHERE state = 11)::integer AS cancelled
            FROM gone
            WHERE batch_id IS NOT NULL AND workflow_node IS NULL
            GROUP BY tenant_id, batch_id
        ) AS e
        HAVING count(*) > 0
    ) AS k
    CROSS JOIN LATERAL gnomon.pass_batches(k.tenants, k.ids, k.succeeded, k.failed, k.cancelled) AS p
), feeds AS MATERIALIZED (
    SELECT f.tenant_id, f.id, f.task_types, f.states
    FROM (SELECT DISTINCT u.tenant_id FROM unnest((SELECT $1::text[])) AS u (tenant_id)) AS u
    CROSS JOIN LATERAL (
        SELECT feed.* FROM gnomon.feed
        WHERE feed.tenant_id = u.tenant_id AND feed.removed_at IS NULL AND feed.gap_since IS NULL
        OFFSET 0
    ) AS f
), fed AS (
    -- Outcomes that feeds publish; as gnomon.note_outcome, which triggers call for all other ends.
    INSERT INTO gnomon.feed_note (tenant_id, feed_id, task_id, task_type, state, attempt, fence, at, error)
    SELECT f.tenant_id, f.id, e.id, e.task_type, e.state, e.attempt, e.fence,
        coalesce(e.finished_at, m.now), e.last_error
    FROM feeds AS f
    CROSS JOIN moment AS m
    JOIN (
        SELECT tenant_id, id, task_type, state, attempt, fence, finished_at, last_error
        FROM gone
        UNION ALL
        SELECT tenant_id, id, task_type, state, attempt, fence, finished_at, last_error
        FROM kept
        WHERE state = 4
    ) AS e ON e.tenant_id = f.tenant_id AND e.state = ANY (f.states)
        AND (f.task_types IS NULL OR e.task_type = ANY (f.task_types))
), tried AS (
    INSERT INTO gnomon.execution (
        tenant_id, task_id, fence, attempt, outcome, response_status, started_at, finished_at,
        worker, error, response_body, traceback
    )
    SELECT
        e.tenant_id, e.id, e.fence, e.attempt, e.outcome, e.response_status, e.started_at,
        coalesce(e.finished_at, m.now), e.worker, e.error, e.response_body, e.traceback
    FROM (
        SELECT tenant_id, id, fence, attempt, outcome, response_status, started_at, finished_at,
            worker, error, response_body, traceback
        FROM kept
        WHERE outcome IS NOT NULL
        UNION ALL
        SELECT tenant_id, id, fence, attempt, 5, response_status, started_at, finished_at,
            worker, error, response_body, traceback
        FROM gone
        WHERE outcome IS NOT NULL AND state = 11
    ) AS e, moment AS m
), metered AS (
    INSERT INTO gnomon.usage AS u (
        tenant_id, day, session, executions, compute_seconds, stored_bytes, held_bytes, freed_bytes
    )
    SELECT
        w.tenant_id, (m.now AT TIME ZONE 'UTC')::date, pg_backend_pid(), w.executions,
        extract(epoch FROM w.computed), w.stored, w.stored + w.noted - w.freed, w.freed
    FROM (
        SELECT tenant_id, count(outcome) AS executions,
            coalesce(sum(greatest(coalesce(finished_at, now) - started_at, '0')), '0') AS computed,
            coalesce(sum(octet_length(response_body)), 0)
                + coalesce(sum(octet_length(result::text)), 0) AS stored,
            sum(noted) AS noted, sum(freed) AS freed
        FROM (
            -- noted: bytes of the error, and of the row of an execution that did not succeed with its
            -- traceback. freed: those of a payload that is not kept, as it was stored: it may have been
            -- sent longer.
            SELECT tenant_id, started_at, finished_at, response_body, result, outcome,
                coalesce(octet_length(error), 0)
                    + CASE WHEN state = 11 THEN 200 + coalesce(octet_length(traceback), 0)
                        ELSE 0 END AS noted,
                CASE WHEN gnomon.removes_payload(keep_payload, state)
                    THEN coalesce(pg_column_size(payload), 0) ELSE 0 END AS freed
            FROM gone
            WHERE outcome IS NOT NULL
            UNION ALL
            SELECT tenant_id, started_at, finished_at, response_body, NULL, outcome,
                2 * coalesce(octet_length(error), 0) + 200
                    + coalesce(octet_length(traceback), 0), 0
            FROM kept
            WHERE outcome IS NOT NULL
            UNION ALL
            SELECT tenant_id, NULL, NULL, NULL, NULL, NULL, 0, bytes FROM dropped
        ) AS t, moment
        GROUP BY tenant_id
    ) AS w, moment AS m
    ON CONFLICT (tenant_id, day, session) DO UPDATE
    SET executions = u.executions + excluded.executions,
        compute_seconds = u.compute_seconds + excluded.compute_seconds,
        stored_bytes = u.stored_bytes + excluded.stored_bytes,
        held_bytes = u.held_bytes + excluded.held_bytes,
        freed_bytes = u.freed_bytes + excluded.freed_bytes
)
-- What has come to its end alike is one row: the answer costs more than the question otherwise.
-- child: a task that became due with the batch, or only its tenant where a chore has to go on.
-- taken: one of these that was claimed, as in claim.sql, but for its address; without_payload: else null
-- is one.
SELECT array_agg(place::int) AS places, state, NULL::timestamptz AS due_at, cron_job_id,
    NULL::json AS child, NULL::json AS taken
FROM gone
GROUP BY state, cron_job_id
UNION ALL
SELECT ARRAY[place::int], state, due_at, cron_job_id, NULL, NULL FROM kept
UNION ALL
SELECT '{}', 0, due_at, NULL, json_build_array(tenant_id, id, lane, flow, by_handler), NULL FROM passed
UNION ALL
SELECT '{}', 0, due_at, NULL, json_build_array(tenant_id, id, lane, flow, by_handler), NULL FROM counted
UNION ALL
SELECT '{}', 0, NULL, NULL, NULL, row_to_json(c)
FROM (SELECT taken.*, NULL::tid AS ctid FROM taken) AS t
CROSS JOIN LATERAL (SELECT {claimed_columns}, t.payload IS NULL AS without_payload) AS c
UNION ALL
SELECT '{}', 0, NULL, NULL, NULL, NULL
WHERE set_config('gnomon.counts_members', 'off', true) = 'on'
   OR set_config('gnomon.notes_outcomes', 'off', true) = 'on'
