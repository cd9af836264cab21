-- How many tasks of each shard are due and wait, and since when the first of them does: webhooks and
-- those of handlers apart, and by as much of their tenant, lane, type and queue as pools choose by.
-- $1 how many to count in a shard; whether to tell tenants ($2), lanes ($3), types ($4), types of what
-- handlers run ($5) and queues ($6) apart.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
)
SELECT s.shard, count(*) AS due, extract(epoch FROM max(m.now - t.due_at))::float8 AS lag_seconds,
    t.by_handler, t.tenant_id, t.lane, t.task_type, t.queue
FROM moment AS m
CROSS JOIN generate_series(0, 255) AS s (shard)
CROSS JOIN LATERAL (
    SELECT task.due_at, h.by_handler,
        CASE WHEN $2::boolean THEN task.tenant_id END AS tenant_id,
        CASE WHEN $3::boolean THEN task.lane END AS lane,
        CASE WHEN $4::boolean OR $5::boolean AND h.by_handler THEN task.task_type END AS task_type,
        CASE WHEN $6::boolean THEN task.queue END AS queue
    FROM gnomon.task
    CROSS JOIN LATERAL (SELECT gnomon.is_by_handler(task.target) AS by_handler) AS h
    WHERE task.state = 0
      AND task.shard = s.shard
      AND task.due_at <= m.now
    ORDER BY task.due_at, task.id
    LIMIT $1
) AS t
GROUP BY s.shard, t.by_handler, t.tenant_id, t.lane, t.task_type, t.queue
