-- Tenants: those named, or with null all.
SELECT id, plan, weight, quotas, targets_allow, functions, hosts, created_at FROM gnomon.tenant
WHERE $1::text[] IS NULL OR id = ANY ($1::text[])
