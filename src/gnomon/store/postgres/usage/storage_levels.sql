-- The stored bytes of these tenants, those that were ever taken off, and when they were counted.
SELECT q.tenant_id, (coalesce(s.bytes, 0) + coalesce(u.held, 0))::bigint AS stored,
    (coalesce(s.freed_bytes, 0) + coalesce(u.freed, 0))::bigint AS freed, s.counted_at, coalesce(s.count_seconds, 0) AS count_seconds, (SELECT gnomon.now()) AS now
FROM unnest($1::text[]) AS q (tenant_id)
LEFT JOIN gnomon.tenant_storage AS s ON s.tenant_id = q.tenant_id
LEFT JOIN (
    SELECT tenant_id, sum(held_bytes) AS held, sum(freed_bytes) AS freed
    FROM gnomon.usage
    WHERE session <> 0
    GROUP BY tenant_id
) AS u ON u.tenant_id = q.tenant_id
