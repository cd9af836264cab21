-- Of each of some limiters of a tenant ($1), the keys under which the most tasks run, $5 at the most.
-- $2 names, $3 task types and $4 queues of the limiters; null: any. What runs is read as by count_running:
-- from outside the wall, $6 tasks at the most.
WITH examined AS MATERIALIZED (
    SELECT tenant_id, task_type, queue, limit_keys
    FROM gnomon.task
    WHERE state = 1 AND node >= '00000000-0000-0000-0000-000000000000'
    ORDER BY node
    LIMIT $6
)
SELECT name, key, running
FROM (
    SELECT m.name, coalesce(t.limit_keys::json ->> m.name, '') AS key, count(*) AS running,
        row_number() OVER (
            PARTITION BY m.name
            ORDER BY count(*) DESC, coalesce(t.limit_keys::json ->> m.name, '')
        ) AS place
    FROM unnest($2::text[], $3::text[], $4::text[]) AS m (name, task_type, queue)
    JOIN examined AS t ON t.tenant_id = $1
        AND (m.task_type IS NULL OR t.task_type = m.task_type)
        AND (m.queue IS NULL OR t.queue = m.queue)
    GROUP BY 1, 2
) AS found
WHERE place <= $5
ORDER BY name, place
