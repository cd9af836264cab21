-- The limiters that a live task is limited by, with its key and how many tasks run under it.
SELECT m.name, m.concurrency, m.rate, m.per_seconds, own.key, (
    SELECT count(*) FROM gnomon.task AS o
    WHERE o.state = 1 AND o.tenant_id = $1
      AND (m.task_type IS NULL OR o.task_type = m.task_type)
      AND (m.queue IS NULL OR o.queue = m.queue)
      AND (m.key IS NULL OR coalesce(o.limit_keys::json ->> m.name, '') = own.key)
) AS running
FROM gnomon.task AS t
JOIN gnomon.limiter AS m ON m.tenant_id = t.tenant_id
    AND (m.task_type IS NULL OR m.task_type = t.task_type)
    AND (m.queue IS NULL OR m.queue = t.queue)
CROSS JOIN LATERAL (
    SELECT CASE WHEN m.key IS NULL THEN '' ELSE coalesce(t.limit_keys::json ->> m.name, '') END AS key
) AS own
WHERE t.tenant_id = $1 AND t.id = $2
ORDER BY m.name
