-- Use the edges of nodes that have ended before, a part of them at a time. Who does so for a node does so
-- alone, and holds no counter that is waited for: see pass_nodes. $1/$2 the keys, in order, $3 what their
-- tasks count as.
SELECT p.*, false AS ended
FROM (
    SELECT array_agg(n.tenant_id ORDER BY n.place) AS tenants, array_agg(n.id ORDER BY n.place) AS ids,
        array_agg(n.state ORDER BY n.place) AS states
    FROM (
        SELECT k.*
        FROM unnest((SELECT $1::text[]), (SELECT $2::uuid[]), (SELECT $3::smallint[]))
            WITH ORDINALITY AS k (tenant_id, id, state, place)
        WHERE pg_try_advisory_xact_lock(hashtextextended('gnomon.workflow_node' || k.id, 0))
        OFFSET 0
    ) AS n
    HAVING count(*) > 0
) AS k
CROSS JOIN LATERAL gnomon.pass_nodes(k.tenants, k.ids, k.states, '{}') AS p
