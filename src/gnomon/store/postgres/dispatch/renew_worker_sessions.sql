-- Extend the leases of sessions ($1) by so many seconds ($2), unless they were declared dead. None gets
-- shorter: where gateways have leases of different lengths, a worker may rely on the longer one.
-- In one order for all, so that two gateways cannot wait for each other.
WITH held AS MATERIALIZED (
    SELECT incarnation FROM gnomon.node
    WHERE incarnation = ANY ($1::uuid[]) AND kind = 2 AND NOT dead
    ORDER BY incarnation
    FOR NO KEY UPDATE
)
UPDATE gnomon.node AS n
SET alive_until = greatest(n.alive_until, m.now + make_interval(secs => $2::float8)), beat = beat + 1
FROM held AS h, (SELECT gnomon.now() AS now) AS m
WHERE n.incarnation = h.incarnation
RETURNING n.incarnation
