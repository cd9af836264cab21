-- The keys of a limiter ($1/$2) under which the most tasks run, $3 at the most.
SELECT coalesce(t.limit_keys::json ->> m.name, '') AS key, count(*) AS running
FROM gnomon.limiter AS m
JOIN gnomon.task AS t ON t.state = 1 AND t.tenant_id = $1
    AND (m.task_type IS NULL OR t.task_type = m.task_type)
    AND (m.queue IS NULL OR t.queue = m.queue)
WHERE m.tenant_id = $1 AND m.name = $2
GROUP BY 1
ORDER BY 2 DESC, 1
LIMIT $3
