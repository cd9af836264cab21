-- Enter a new incarnation of a node.
INSERT INTO gnomon.node (incarnation, name, version, slots, started_at, alive_until, serves)
SELECT $1, $2, $3, $4, m.now, m.now + make_interval(secs => $5::float8), $6::jsonb
FROM (SELECT gnomon.now() AS now) AS m
ON CONFLICT (incarnation) DO UPDATE SET beat = gnomon.node.beat + 1
RETURNING gnomon.now() AS now
