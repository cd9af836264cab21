-- The limiters of a tenant ($1), or the one of a name ($2).
SELECT tenant_id, name, task_type, queue, key, concurrency, rate, per_seconds, created_at, updated_at
FROM gnomon.limiter
WHERE tenant_id = $1 AND ($2::text IS NULL OR name = $2)
ORDER BY name
