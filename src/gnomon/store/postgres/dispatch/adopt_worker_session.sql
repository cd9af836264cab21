-- Let a gateway ($2) claim for a session ($1) from now on, and no other. The lock waits for claims that
-- the gateway before has under way, so that whoever looks after this sees all that it claimed.
-- `was_own`: it was this gateway's already, and so no other's since.
WITH held AS MATERIALIZED (
    SELECT incarnation, gateway FROM gnomon.node
    WHERE incarnation = $1 AND kind = 2 AND NOT dead
    FOR UPDATE
)
UPDATE gnomon.node AS n
SET gateway = $2, gateways = array_append(array_remove(n.gateways, $2), $2)
FROM held AS h
WHERE n.incarnation = h.incarnation
RETURNING h.gateway IS NOT DISTINCT FROM $2 AS was_own
