-- The nodes that are not dead, and the sessions that should have renewed by now: the others serve no
-- shards, and there may be thousands of them.
SELECT incarnation, name, version, slots, started_at, alive_until, beat, dead, serves, kind
FROM gnomon.node
WHERE NOT dead AND (kind <> 2 OR alive_until < (SELECT gnomon.now()))
ORDER BY started_at
