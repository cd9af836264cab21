-- Limiters of the tenants named, or with null of all.
SELECT tenant_id, name, task_type, queue, key, concurrency, rate, per_seconds
FROM gnomon.limiter
WHERE $1::text[] IS NULL OR tenant_id = ANY ($1::text[])
ORDER BY tenant_id, name
