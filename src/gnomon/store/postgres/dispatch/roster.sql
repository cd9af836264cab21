-- The nodes that are not dead.
SELECT incarnation, name, version, slots, started_at, alive_until, beat, dead, serves
FROM gnomon.node WHERE NOT dead ORDER BY started_at
