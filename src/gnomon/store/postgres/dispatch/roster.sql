-- The nodes that are not dead, and the sessions whose leases are about to run out: the others serve no
-- shards, and there may be thousands of them.
SELECT incarnation, name, version, slots, started_at, alive_until, beat, dead, serves, kind
FROM gnomon.node
WHERE NOT dead AND (kind <> 2 OR alive_until < (SELECT gnomon.now()) + interval '5 seconds')
ORDER BY started_at
