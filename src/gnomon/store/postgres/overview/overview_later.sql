-- Tasks that wait for a time to come: $1 of a shard at the most.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
)
SELECT count(*) AS tasks
FROM generate_series(0, 255) AS s (shard)
CROSS JOIN LATERAL (
    SELECT task.id
    FROM gnomon.task
    WHERE task.state = 0
      AND task.shard = s.shard
      AND task.due_at > (SELECT now FROM moment)
    ORDER BY task.due_at, task.id
    LIMIT $1
) AS t
