-- Of each of the limiters $2 of a tenant ($1), the keys under which the most tasks run, $3 at the most.
-- What runs is read as by list_limiters.
WITH examined AS MATERIALIZED (
    SELECT tenant_id, task_type, queue, limit_keys
    FROM gnomon.task
    WHERE state = 1 AND node >= '00000000-0000-0000-0000-000000000000'
    ORDER BY node
)
SELECT name, key, running
FROM (
    SELECT m.name, coalesce(t.limit_keys::json ->> m.name, '') AS key, count(*) AS running,
        row_number() OVER (
            PARTITION BY m.name
            ORDER BY count(*) DESC, coalesce(t.limit_keys::json ->> m.name, '')
        ) AS place
    FROM gnomon.limiter AS m
    JOIN examined AS t ON t.tenant_id = $1
        AND (m.task_type IS NULL OR t.task_type = m.task_type)
        AND (m.queue IS NULL OR t.queue = m.queue)
    WHERE m.tenant_id = $1 AND m.name = ANY ($2::text[])
    GROUP BY 1, 2
) AS found
WHERE place <= $3
ORDER BY name, place
