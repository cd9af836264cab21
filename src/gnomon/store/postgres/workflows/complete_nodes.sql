-- Complete nodes of which no task runs (SUCCEED -> COMPLETED): those that waited, and mapped ones. One
-- whose task somebody else holds is left for the next time. $1/$2 the keys, in order, $3 their results.
-- Gives the keys of those that ended, and then what pass_nodes gives.
WITH held AS MATERIALIZED (
    SELECT t.ctid, k.result
    FROM unnest((SELECT $1::text[]), (SELECT $2::uuid[]), (SELECT $3::json[]))
        AS k (tenant_id, id, result)
    CROSS JOIN LATERAL (
        SELECT task.ctid FROM gnomon.task
        WHERE task.tenant_id = k.tenant_id AND task.id = k.id AND task.state + 0 = 3
        FOR UPDATE SKIP LOCKED
    ) AS t
), gone AS (
    DELETE FROM gnomon.task AS t
    USING held AS h
    WHERE t.ctid = h.ctid
    RETURNING t.*, h.result AS kept
), passed AS MATERIALIZED (
    SELECT p.*
    FROM (
        SELECT array_agg(g.tenant_id) AS tenants, array_agg(g.id) AS ids,
            array_agg(10::smallint) AS states, array_agg(g.kept) AS results
        FROM gone AS g
        HAVING count(*) > 0
    ) AS k
    CROSS JOIN LATERAL gnomon.pass_nodes(k.tenants, k.ids, k.states, k.results) AS p
), archived AS (
    INSERT INTO gnomon.task_archive ({carried}, state, started_at, finished_at, attempt)
    SELECT {carried}, 10, started_at, gnomon.now(), attempt FROM gone
    RETURNING tenant_id, id
)
SELECT tenant_id, id, NULL::timestamptz AS due_at, NULL::smallint AS lane, NULL::bigint AS flow,
    NULL::boolean AS by_handler, true AS ended
FROM archived
UNION ALL
SELECT tenant_id, id, due_at, lane, flow, by_handler, false FROM passed
