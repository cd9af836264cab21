-- Nodes that have joined or ended within $1 seconds; not sessions, which come and go with their workers. One that has left did so within its lease; one that
-- was declared dead is lost, unless one of its name is back.
SELECT n.incarnation, n.name, n.version, n.slots, n.started_at, n.ended_at,
    n.dead AND n.ended_at > n.alive_until AND NOT EXISTS (
        SELECT FROM gnomon.node AS o WHERE o.name = n.name AND NOT o.dead
    ) AS lost
FROM gnomon.node AS n
WHERE n.kind <> 2 AND (
    n.started_at > gnomon.now() - make_interval(secs => $1::float8)
    OR n.ended_at > gnomon.now() - make_interval(secs => $1::float8)
)
ORDER BY n.started_at
LIMIT $2
