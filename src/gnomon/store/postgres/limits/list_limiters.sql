-- The limiters of a tenant ($1), or the one of a name ($2), and how many tasks each counts now: by the
-- small index of all that run, as count_running, for a condition on the tenant may lead through the key
-- of all its tasks. From outside the wall, which is such a condition.
WITH examined AS MATERIALIZED (
    SELECT tenant_id, task_type, queue
    FROM gnomon.task
    WHERE state = 1 AND node >= '00000000-0000-0000-0000-000000000000'
    ORDER BY node
), running AS MATERIALIZED (
    SELECT task_type, queue, count(*) AS tasks
    FROM examined
    WHERE tenant_id = $1
    GROUP BY task_type, queue
)
SELECT m.tenant_id, m.name, m.task_type, m.queue, m.key, m.concurrency, m.rate, m.per_seconds,
    m.created_at, m.updated_at,
    coalesce((
        SELECT sum(r.tasks) FROM running AS r
        WHERE (m.task_type IS NULL OR r.task_type = m.task_type)
          AND (m.queue IS NULL OR r.queue = m.queue)
    ), 0)::bigint AS running
FROM gnomon.limiter AS m
WHERE m.tenant_id = $1 AND ($2::text IS NULL OR m.name = $2)
ORDER BY m.name
