-- As claim, for the sessions of a gateway: each task for the one that was chosen for it ($7), as long
-- as that is alive and no other gateway has it. The rows of the gateway and of the sessions are locked
-- as claim locks that of the node: who adopts a session waits for this, and this finds out who has.
-- $1 the gateway, $2 to $6 as in claim.
WITH moment AS MATERIALIZED (
    SELECT now, now AS until FROM (SELECT gnomon.now() AS now OFFSET 0) AS m
), session AS MATERIALIZED (
    SELECT n.incarnation
    FROM gnomon.node AS n
    WHERE n.incarnation = ANY ($7::uuid[]) AND n.kind = 2 AND NOT n.dead AND n.gateway = $1
    ORDER BY n.incarnation
    FOR KEY SHARE
), taker AS MATERIALIZED (
    -- The sessions by task: a join with the rows to be changed could be made in other ways than by
    -- their places.
    SELECT jsonb_object_agg(u.id, u.node) AS nodes
    FROM unnest($3::uuid[], $7::uuid[]) AS u (id, node)
    WHERE cardinality($7::uuid[]) > 1
), chosen AS MATERIALIZED (
    SELECT t.ctid
    FROM (
        SELECT {chosen_key},
            CASE WHEN cardinality($7::uuid[]) = 1 THEN ($7::uuid[])[1] ELSE u.node END AS node
        FROM unnest($2::text[], $3::uuid[], $6::bigint[], $7::uuid[]) AS u (tenant_id, id, flow, node)
    ) AS k
    CROSS JOIN LATERAL (
        {chosen_row}
    ) AS t
    WHERE k.node = ANY (ARRAY(SELECT incarnation FROM session))
      AND EXISTS (SELECT FROM gnomon.node WHERE incarnation = $1 AND NOT dead FOR KEY SHARE)
)
UPDATE gnomon.task AS t
SET {claimed_values},
    node = CASE WHEN cardinality($7::uuid[]) = 1 THEN ($7::uuid[])[1]
        ELSE ((SELECT nodes FROM taker) ->> t.id::text)::uuid END
FROM moment AS m
WHERE t.ctid = ANY (ARRAY(SELECT ctid FROM chosen))
RETURNING
    {claimed_columns}, t.node
