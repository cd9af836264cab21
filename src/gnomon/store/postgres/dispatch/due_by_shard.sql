-- How many tasks of each shard are due and wait, webhooks and those of handlers apart, and since when
-- the first of them does.
-- $1 how many to count in a shard.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
)
SELECT s.shard, count(*) AS due, extract(epoch FROM max(m.now - t.due_at))::float8 AS lag_seconds,
    t.by_handler
FROM moment AS m
CROSS JOIN generate_series(0, 255) AS s (shard)
CROSS JOIN LATERAL (
    SELECT task.due_at, gnomon.is_by_handler(task.target) AS by_handler
    FROM gnomon.task
    WHERE task.state = 0
      AND task.shard = s.shard
      AND task.due_at <= m.now
    ORDER BY task.due_at, task.id
    LIMIT $1
) AS t
GROUP BY s.shard, t.by_handler
