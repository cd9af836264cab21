-- Enter a worker session, unless its tenant or its key has as many as it may.
-- $1 incarnation, $2 name, $3 version, $4 slots, $5 lease seconds, $6 its pool, $7 tenant, $8 hash of the
-- secret, $9 key, $10 gateway, $11 about, $12 most of the tenant, $13 most of the key.
WITH living AS MATERIALIZED (
    SELECT count(*) AS of_tenant, count(*) FILTER (WHERE n.key_id = $9) AS of_key
    FROM gnomon.node AS n
    WHERE NOT n.dead AND n.kind = 2 AND n.tenant_id = $7
), entered AS (
    INSERT INTO gnomon.node (
        incarnation, name, version, slots, started_at, alive_until, serves, kind, tenant_id, secret,
        key_id, gateway, gateways, about
    )
    SELECT $1, $2, $3, $4, m.now, m.now + make_interval(secs => $5::float8), $6::jsonb, 2, $7, $8,
        $9::uuid, $10::uuid, ARRAY[$10::uuid], $11::jsonb
    FROM living AS l
    CROSS JOIN (SELECT gnomon.now() AS now) AS m
    WHERE l.of_tenant < $12 AND l.of_key < $13
    RETURNING incarnation
)
SELECT l.of_tenant, l.of_key, EXISTS (SELECT FROM entered) AS entered FROM living AS l
