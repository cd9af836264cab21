-- Due tasks that wait, by shard and lane, and since when the first of them does: $1 of a shard at the most.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
)
SELECT s.shard, t.lane, count(*) AS tasks,
    extract(epoch FROM max((SELECT now FROM moment) - t.due_at))::float8 AS oldest_seconds
FROM generate_series(0, 255) AS s (shard)
CROSS JOIN LATERAL (
    SELECT task.lane, task.due_at
    FROM gnomon.task
    WHERE task.state = 0
      AND task.shard = s.shard
      AND task.due_at <= (SELECT now FROM moment)
    ORDER BY task.due_at, task.id
    LIMIT $1
) AS t
GROUP BY s.shard, t.lane
