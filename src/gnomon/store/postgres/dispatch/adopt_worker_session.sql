-- Let a gateway ($2) claim for a session ($1) from now on, and no other, and extend its lease by so many
-- seconds ($3): its worker has just been heard, and the beats of before went to the gateway before. The
-- lock waits for claims that the gateway before has under way, so that whoever looks after this sees all
-- that it claimed. `was_own`: it was this gateway's already, and so no other's since.
WITH held AS MATERIALIZED (
    SELECT incarnation, gateway FROM gnomon.node
    WHERE incarnation = $1 AND kind = 2 AND NOT dead
    FOR UPDATE
)
UPDATE gnomon.node AS n
SET gateway = $2, gateways = array_append(array_remove(n.gateways, $2), $2),
    alive_until = greatest(n.alive_until, m.now + make_interval(secs => $3::float8)), beat = n.beat + 1
FROM held AS h, (SELECT gnomon.now() AS now) AS m
WHERE n.incarnation = h.incarnation
RETURNING h.gateway IS NOT DISTINCT FROM $2 AS was_own
