-- Extend a lease, however late, unless the node was declared dead.
UPDATE gnomon.node
SET alive_until = m.now + make_interval(secs => $2::float8), beat = beat + 1
FROM (SELECT gnomon.now() AS now) AS m
WHERE incarnation = $1 AND NOT dead
RETURNING m.now
