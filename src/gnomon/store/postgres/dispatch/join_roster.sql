-- Enter a new incarnation of a node, or of a gateway ($7 the kind).
INSERT INTO gnomon.node (incarnation, name, version, slots, started_at, alive_until, serves, kind)
SELECT $1, $2, $3, $4, m.now, m.now + make_interval(secs => $5::float8), $6::jsonb, $7
FROM (SELECT gnomon.now() AS now) AS m
ON CONFLICT (incarnation) DO UPDATE SET beat = gnomon.node.beat + 1
RETURNING gnomon.now() AS now
