-- End nodes whose turn will never come (CANCEL -> CANCELLED), or those of a run that is cancelled. One
-- whose task somebody else holds is left for the next time. $1/$2 the keys, in order, $3 the reasons.
-- Gives the keys of those that ended, and then what pass_nodes gives.
WITH held AS MATERIALIZED (
    SELECT t.ctid, k.reason
    FROM unnest((SELECT $1::text[]), (SELECT $2::uuid[]), (SELECT $3::text[]))
        AS k (tenant_id, id, reason)
    CROSS JOIN LATERAL (
        SELECT task.ctid FROM gnomon.task
        WHERE task.tenant_id = k.tenant_id AND task.id = k.id AND task.state IN (0, 2, 3)
        FOR UPDATE SKIP LOCKED
    ) AS t
), gone AS (
    DELETE FROM gnomon.task AS t
    USING held AS h
    WHERE t.ctid = h.ctid
    RETURNING t.*, h.reason, gnomon.removes_payload(t.keep_payload, 11) AS removed
), passed AS MATERIALIZED (
    SELECT p.*
    FROM (
        SELECT array_agg(g.tenant_id) AS tenants, array_agg(g.id) AS ids,
            array_agg(11::smallint) AS states
        FROM gone AS g
        HAVING count(*) > 0
    ) AS k
    CROSS JOIN LATERAL gnomon.pass_nodes(k.tenants, k.ids, k.states, '{}') AS p
), dropped AS MATERIALIZED (
    SELECT gnomon.drop_payloads(array_agg(g.tenant_id), array_agg(g.id)) AS number
    FROM gone AS g
    WHERE g.removed AND g.payload_size IS NOT NULL
    HAVING count(*) > 0
), archived AS (
    INSERT INTO gnomon.task_archive (
        {carried}, state, started_at, finished_at, attempt, payload_size, payload, payload_removed,
        last_error
    )
    SELECT
        {carried}, 11, started_at, gnomon.now(), attempt,
        CASE WHEN NOT removed THEN payload_size END, CASE WHEN NOT removed THEN payload END,
        removed AND (payload_size IS NOT NULL OR payload IS NOT NULL), reason
    FROM gone
    WHERE (SELECT count(*) FROM dropped) >= 0  -- it is done only where it is asked for
    RETURNING tenant_id, id
)
SELECT tenant_id, id, NULL::timestamptz AS due_at, NULL::smallint AS lane, NULL::bigint AS flow,
    NULL::boolean AS by_handler, true AS ended
FROM archived
UNION ALL
SELECT tenant_id, id, due_at, lane, flow, by_handler, false FROM passed
