-- Enter events about dead letters, or bring their numbers up to date.
-- $1/$2/$3 tenants, ids and details; $4 the kind.
INSERT INTO gnomon.event AS e (tenant_id, id, kind, at, detail)
SELECT n.tenant_id, n.id, $4::text, (SELECT gnomon.now()), n.detail
FROM unnest($1::text[], $2::uuid[], $3::json[]) AS n (tenant_id, id, detail)
ORDER BY n.tenant_id, n.id
ON CONFLICT (tenant_id, id) DO UPDATE
SET detail = excluded.detail, at = excluded.at
WHERE e.detail::text <> excluded.detail::text
