-- Nodes of the roster, how long their leases are still good, and how many tasks run on each.
-- $1 at most so many.
SELECT n.name, n.incarnation, n.version, n.slots, n.started_at, n.alive_until, n.dead, n.serves,
    extract(epoch FROM n.alive_until - m.now)::float8 AS lease_seconds,
    (SELECT count(*) FROM gnomon.task AS t WHERE t.state = 1 AND t.node = n.incarnation) AS running
FROM (SELECT * FROM gnomon.node ORDER BY dead, started_at LIMIT $1) AS n
CROSS JOIN (SELECT gnomon.now() AS now OFFSET 0) AS m
ORDER BY n.dead, n.started_at
