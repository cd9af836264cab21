-- Due tasks that wait, by shard and lane, and since when the first of them does: $1 of a shard at the most.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
)
SELECT s.shard, t.lane, count(*) AS tasks,
    -- Plain SQL can write a time that is infinitely far away, and not every version subtracts that.
    extract(epoch FROM (SELECT now FROM moment) - greatest(
        min(t.due_at), (SELECT now FROM moment) - interval '1000 years'
    ))::float8 AS oldest_seconds
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
