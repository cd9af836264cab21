-- How many tasks of a tenant ($1) run under some limiters: $2 names, $3 task types, $4 queues, null: any;
-- $5 keys, null: of all keys. What runs is read as by count_running: from outside the wall, $6 tasks at
-- the most.
WITH examined AS MATERIALIZED (
    SELECT tenant_id, task_type, queue, limit_keys
    FROM gnomon.task
    WHERE state = 1 AND node >= '00000000-0000-0000-0000-000000000000'
    ORDER BY node
    LIMIT $6
)
SELECT m.name, count(*) AS running
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS m (name, task_type, queue, key)
JOIN examined AS t ON t.tenant_id = $1
    AND (m.task_type IS NULL OR t.task_type = m.task_type)
    AND (m.queue IS NULL OR t.queue = m.queue)
    AND (m.key IS NULL OR coalesce(t.limit_keys::json ->> m.name, '') = m.key)
GROUP BY m.name
