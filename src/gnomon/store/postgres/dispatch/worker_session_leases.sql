-- How many seconds the leases of these sessions ($1) are still good for, whoever renewed them.
SELECT incarnation, extract(epoch FROM alive_until - (SELECT gnomon.now()))::float8 AS lease_seconds
FROM gnomon.node
WHERE incarnation = ANY ($1::uuid[]) AND kind = 2 AND NOT dead
