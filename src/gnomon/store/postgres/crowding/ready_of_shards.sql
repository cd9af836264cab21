-- How many tasks of each tenant are due and wait in some shards ($1): $2 of a shard at the most.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
)
SELECT t.tenant_id, count(*) AS ready
FROM unnest($1::smallint[]) AS s (shard)
CROSS JOIN LATERAL (
    SELECT task.tenant_id
    FROM gnomon.task
    WHERE task.state = 0
      AND task.shard = s.shard
      AND task.due_at <= (SELECT now FROM moment)
    ORDER BY task.due_at, task.id
    LIMIT $2
) AS t
GROUP BY t.tenant_id
