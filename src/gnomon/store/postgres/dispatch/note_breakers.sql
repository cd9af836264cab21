-- Keep what a node's breakers do, and enter the events, each once. That one is open is a condition of the
-- fleet, which is over when no node has it open: see over_breakers.
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
), begun AS (
    INSERT INTO gnomon.condition (kind, tenant_id, key, event_id, began_at, detail)
    SELECT 'breaker.opened', o.tenant_id, coalesce(o.host, ''), gen_random_uuid(), o.opened_at,
        json_build_object('host', o.host)
    FROM unnest($2::text[], $3::text[], $5::timestamptz[]) AS o (tenant_id, host, opened_at)
    ORDER BY o.tenant_id, o.host
    -- Another id, so that it is not ended by who has not seen that this node has it open, too.
    ON CONFLICT (kind, tenant_id, key) DO UPDATE SET event_id = excluded.event_id
)
INSERT INTO gnomon.event (tenant_id, id, kind, at, detail)
SELECT e.tenant_id, e.id, e.kind, e.at, e.detail
FROM unnest($11::text[], $12::uuid[], $13::text[], $14::timestamptz[], $15::json[])
    AS e (tenant_id, id, kind, at, detail)
ON CONFLICT DO NOTHING
