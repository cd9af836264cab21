-- The limiters that a live task is limited by, with its key ("" where a limiter has none).
SELECT m.name, m.concurrency, m.rate, m.per_seconds, m.task_type, m.queue, m.key IS NOT NULL AS keyed,
    CASE WHEN m.key IS NULL THEN '' ELSE coalesce(t.limit_keys::json ->> m.name, '') END AS key
FROM gnomon.task AS t
JOIN gnomon.limiter AS m ON m.tenant_id = t.tenant_id
    AND (m.task_type IS NULL OR m.task_type = t.task_type)
    AND (m.queue IS NULL OR m.queue = t.queue)
WHERE t.tenant_id = $1 AND t.id = $2
ORDER BY m.name
