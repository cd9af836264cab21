-- Let claimed tasks begin: each only if its fence and its node are still those of its claim, the node
-- has not been declared dead, others may not take it over yet, and nobody has asked for its
-- cancelling. Asked again, it says the same.
-- One that is locked is being changed: it may not begin, and will be released.
-- $1 the node of each, or one for all; $2/$3 the keys, $4 the fence of each.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
), chosen AS MATERIALIZED (
    SELECT t.ctid
    FROM (
        SELECT u.tenant_id, u.id, u.fence,
            CASE WHEN cardinality($1::uuid[]) = 1 THEN ($1::uuid[])[1] ELSE u.node END AS node
        FROM unnest($2::text[], $3::uuid[], $4::bigint[], $1::uuid[]) AS u (tenant_id, id, fence, node)
    ) AS k
    CROSS JOIN LATERAL (
        SELECT task.ctid
        FROM gnomon.task
        WHERE task.tenant_id = k.tenant_id
          AND task.id = k.id
          AND task.fence = k.fence
          AND task.node = k.node
          AND NOT task.cancel_requested
          AND task.run_until > (SELECT now FROM moment)
        FOR UPDATE SKIP LOCKED
    ) AS t
    WHERE EXISTS (SELECT FROM gnomon.node AS n WHERE n.incarnation = k.node AND NOT n.dead)
)
UPDATE gnomon.task AS t
SET begun = true, started_at = m.now
FROM moment AS m
WHERE t.ctid = ANY (ARRAY(SELECT ctid FROM chosen))
RETURNING t.tenant_id, t.id, t.fence
