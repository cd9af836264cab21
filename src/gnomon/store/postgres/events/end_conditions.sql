-- Forget conditions that are over. $1/$2/$3: kinds, tenants, keys.
DELETE FROM gnomon.condition AS c
USING unnest($1::text[], $2::text[], $3::text[]) AS o (kind, tenant_id, key)
WHERE c.kind = o.kind AND c.tenant_id = o.tenant_id AND c.key = o.key
