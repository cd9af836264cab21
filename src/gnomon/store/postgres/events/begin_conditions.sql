-- Note conditions that have begun; gives those that nobody has noted before.
-- $1 to $5: kinds, tenants, keys, the events that tell of them, details.
INSERT INTO gnomon.condition (kind, tenant_id, key, event_id, began_at, detail)
SELECT n.kind, n.tenant_id, n.key, n.event_id, m.now, n.detail
FROM unnest($1::text[], $2::text[], $3::text[], $4::uuid[], $5::json[])
    AS n (kind, tenant_id, key, event_id, detail)
CROSS JOIN (SELECT gnomon.now() AS now OFFSET 0) AS m
ORDER BY n.kind, n.tenant_id, n.key
ON CONFLICT DO NOTHING
RETURNING event_id
