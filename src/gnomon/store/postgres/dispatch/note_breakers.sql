-- Keep what a node's breakers do, and enter the events, each once.
-- $1 the node; $2/$3/$4 tenants, hosts and ends of those that are open; $5/$6 tenants and hosts of
-- those that are not; $7 to $11 the events: tenants, ids, kinds, times and details.
WITH closed AS (
    DELETE FROM gnomon.breaker AS b
    USING unnest($5::text[], $6::text[]) AS c (tenant_id, host)
    WHERE b.node = $1 AND b.tenant_id = c.tenant_id AND b.host IS NOT DISTINCT FROM c.host
), opened AS (
    INSERT INTO gnomon.breaker (tenant_id, host, node, until)
    SELECT o.tenant_id, o.host, $1, o.until
    FROM unnest($2::text[], $3::text[], $4::timestamptz[]) AS o (tenant_id, host, until)
    ON CONFLICT (tenant_id, host, node) DO UPDATE SET until = excluded.until
)
INSERT INTO gnomon.event (tenant_id, id, kind, at, detail)
SELECT e.tenant_id, e.id, e.kind, e.at, e.detail
FROM unnest($7::text[], $8::uuid[], $9::text[], $10::timestamptz[], $11::json[])
    AS e (tenant_id, id, kind, at, detail)
ON CONFLICT DO NOTHING
