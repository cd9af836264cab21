-- Create or replace a limiter, unless it would be one more than a tenant may have ($9): then nothing
-- is returned.
INSERT INTO gnomon.limiter AS m (
    tenant_id, name, task_type, queue, key, concurrency, rate, per_seconds, created_at, updated_at
)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, now, now
FROM gnomon.now()
WHERE EXISTS (SELECT FROM gnomon.limiter WHERE tenant_id = $1 AND name = $2)
   OR (SELECT count(*) FROM gnomon.limiter WHERE tenant_id = $1) < $9::integer
ON CONFLICT (tenant_id, name) DO UPDATE
SET task_type = excluded.task_type, queue = excluded.queue, key = excluded.key,
    concurrency = excluded.concurrency, rate = excluded.rate, per_seconds = excluded.per_seconds,
    updated_at = excluded.updated_at
RETURNING m.xmax = 0 AS created
