-- End nodes of which no task runs (SUCCEED -> COMPLETED, or as elements of a mapped one did): those that
-- waited, and mapped ones. One whose task somebody else holds is left for the next time. $1/$2 the keys,
-- in order, $3 their results, $4 states, $5 errors.
-- Gives the keys of those that ended, and then what pass_nodes gives.
WITH held AS MATERIALIZED (
    SELECT t.ctid, k.result, k.state, k.error
    FROM unnest(
        (SELECT $1::text[]), (SELECT $2::uuid[]), (SELECT $3::json[]), (SELECT $4::smallint[]),
        (SELECT $5::text[])
    ) AS k (tenant_id, id, result, state, error)
    CROSS JOIN LATERAL (
        SELECT task.ctid FROM gnomon.task
        WHERE task.tenant_id = k.tenant_id AND task.id = k.id AND task.state + 0 = 3
        FOR UPDATE SKIP LOCKED
    ) AS t
), gone AS (
    DELETE FROM gnomon.task AS t
    USING held AS h
    WHERE t.ctid = h.ctid
    RETURNING t.*, h.result AS kept, h.state AS ends, h.error
), passed AS MATERIALIZED (
    SELECT p.*
    FROM (
        SELECT array_agg(g.tenant_id) AS tenants, array_agg(g.id) AS ids,
            array_agg(g.ends) AS states, array_agg(g.kept) AS results
        FROM gone AS g
        HAVING count(*) > 0
    ) AS k
    CROSS JOIN LATERAL gnomon.pass_nodes(k.tenants, k.ids, k.states, k.results) AS p
), archived AS (
    INSERT INTO gnomon.task_archive ({carried}, state, started_at, finished_at, attempt, last_error)
    SELECT {carried}, ends, started_at, gnomon.now(), attempt, error FROM gone
    RETURNING tenant_id, id
)
SELECT tenant_id, id, NULL::timestamptz AS due_at, NULL::smallint AS lane, NULL::bigint AS flow,
    NULL::boolean AS by_handler, true AS ended
FROM archived
UNION ALL
SELECT tenant_id, id, due_at, lane, flow, by_handler, false FROM passed
