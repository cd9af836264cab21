-- Nodes of the roster, how long their leases are still good, and how many tasks run on each: on a
-- gateway, those of its sessions. Sessions come last: there may be thousands. $1 at most so many.
SELECT n.name, n.incarnation, n.version, n.slots, n.started_at, n.alive_until, n.dead, n.serves,
    n.kind, n.tenant_id, n.gateway,
    extract(epoch FROM n.alive_until - m.now)::float8 AS lease_seconds,
    CASE WHEN n.kind = 1 THEN (
        SELECT count(*)
        FROM gnomon.node AS s
        CROSS JOIN LATERAL (
            SELECT FROM gnomon.task AS t WHERE t.state = 1 AND t.node = s.incarnation OFFSET 0
        ) AS t
        WHERE s.kind = 2 AND s.gateway = n.incarnation AND NOT n.dead
    ) ELSE (
        SELECT count(*) FROM gnomon.task AS t WHERE t.state = 1 AND t.node = n.incarnation
    ) END AS running
FROM (SELECT * FROM gnomon.node ORDER BY dead, kind = 2, started_at LIMIT $1) AS n
CROSS JOIN (SELECT gnomon.now() AS now OFFSET 0) AS m
ORDER BY n.dead, n.kind = 2, n.started_at
