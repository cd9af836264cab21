-- All limiters, of all tenants.
SELECT tenant_id, name, task_type, queue, key, concurrency, rate, per_seconds
FROM gnomon.limiter
ORDER BY tenant_id, name
