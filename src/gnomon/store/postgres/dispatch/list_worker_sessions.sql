-- The living sessions of a tenant ($1), and how many tasks run on each. $2 at most so many.
SELECT n.incarnation, n.name, n.slots, n.started_at, n.serves, n.about, g.name AS gateway,
    extract(epoch FROM n.alive_until - m.now)::float8 AS lease_seconds,
    (SELECT count(*) FROM gnomon.task AS t WHERE t.state = 1 AND t.node = n.incarnation) AS running
FROM (
    SELECT * FROM gnomon.node WHERE kind = 2 AND tenant_id = $1 AND NOT dead
    ORDER BY started_at, incarnation
    LIMIT $2
) AS n
LEFT JOIN gnomon.node AS g ON g.incarnation = n.gateway AND NOT g.dead
CROSS JOIN (SELECT gnomon.now() AS now OFFSET 0) AS m
ORDER BY n.started_at, n.incarnation
