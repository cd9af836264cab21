-- What changes with the nodes of the installation, but for their renewals.
SELECT sum(hashtext(
    n.incarnation::text || n.slots || n.dead || (n.alive_until < m.now) || coalesce(n.serves::text, '')
)::bigint) AS nodes
FROM (SELECT * FROM gnomon.node ORDER BY dead, kind = 2, started_at DESC LIMIT 1000) AS n
CROSS JOIN (SELECT gnomon.now() AS now OFFSET 0) AS m
