-- Forget the conditions of breakers ($1) that no node has open any more, but for dead ones; at most $2.
WITH over AS MATERIALIZED (
    SELECT c.tenant_id, c.key, c.event_id
    FROM gnomon.condition AS c
    WHERE c.kind = $1 AND NOT EXISTS (
        SELECT FROM gnomon.breaker AS b
        JOIN gnomon.node AS n ON n.incarnation = b.node AND NOT n.dead
        WHERE b.tenant_id = c.tenant_id AND b.host IS NOT DISTINCT FROM nullif(c.key, '')
    )
    ORDER BY c.tenant_id, c.key
    LIMIT $2
)
DELETE FROM gnomon.condition AS c
USING over AS o
WHERE c.kind = $1 AND c.tenant_id = o.tenant_id AND c.key = o.key
  AND c.event_id = o.event_id  -- a node that has opened its breaker meanwhile has given it another
RETURNING c.kind, c.tenant_id, c.began_at, c.detail
