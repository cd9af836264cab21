-- Keep what a node's breakers do, and enter the events, each once.
-- $1 the node; $2 to $8 tenants, hosts, ends, openings, calls, failures and last errors of those that
-- are open; $9/$10 tenants and hosts of those that are not; $11 to $15 the events: tenants, ids, kinds,
-- times and details.
WITH closed AS (
    DELETE FROM gnomon.breaker AS b
    USING unnest($9::text[], $10::text[]) AS c (tenant_id, host)
    WHERE b.node = $1 AND b.tenant_id = c.tenant_id AND b.host IS NOT DISTINCT FROM c.host
), opened AS (
    INSERT INTO gnomon.breaker (tenant_id, host, node, until, opened_at, calls, failures, error)
    SELECT o.tenant_id, o.host, $1, o.until, o.opened_at, o.calls, o.failures, o.error
    FROM unnest(
        $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::integer[], $7::integer[],
        $8::text[]
    ) AS o (tenant_id, host, until, opened_at, calls, failures, error)
    ON CONFLICT (tenant_id, host, node) DO UPDATE
    SET until = excluded.until, opened_at = excluded.opened_at, calls = excluded.calls,
        failures = excluded.failures, error = excluded.error
)
INSERT INTO gnomon.event (tenant_id, id, kind, at, detail)
SELECT e.tenant_id, e.id, e.kind, e.at, e.detail
FROM unnest($11::text[], $12::uuid[], $13::text[], $14::timestamptz[], $15::json[])
    AS e (tenant_id, id, kind, at, detail)
ON CONFLICT DO NOTHING
