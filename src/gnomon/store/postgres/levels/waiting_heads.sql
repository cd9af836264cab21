-- The first waiting task of each of the next flows after ($1, $2, $3), at most $4 flows: what keeps it from
-- starting keeps all of its flow. $5 seconds that it is due at the least; others come without an id.
WITH RECURSIVE head AS (
    (SELECT tenant_id, lane, flow, due_at, id, gated, 1 AS number
     FROM gnomon.task
     WHERE state = 0 AND (tenant_id, lane, flow) > ($1::text, $2::smallint, $3::bigint)
     ORDER BY tenant_id, lane, flow, due_at, id
     LIMIT 1)
    UNION ALL
    SELECT n.tenant_id, n.lane, n.flow, n.due_at, n.id, n.gated, h.number + 1
    FROM head AS h
    CROSS JOIN LATERAL (
        SELECT tenant_id, lane, flow, due_at, id, gated
        FROM gnomon.task
        WHERE state = 0 AND (tenant_id, lane, flow) > (h.tenant_id, h.lane, h.flow)
        ORDER BY tenant_id, lane, flow, due_at, id
        LIMIT 1
    ) AS n
    WHERE h.number < $4::integer
)
SELECT tenant_id, lane, flow,
    CASE WHEN NOT gated AND due_at < (SELECT gnomon.now()) - make_interval(secs => $5::float8)
        THEN id END AS id
FROM head
ORDER BY number
