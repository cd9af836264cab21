-- Overdue tasks in the shards of others, the latest of each first: their owner begins at the other
-- end, where it leaves its dead index entries behind, too.
-- $1 shards, $2 seconds overdue, $3 entries a shard and $4 in all at most, $5 losses at most, $6
-- whether the node has a pool, $7 to $10 what it serves, as in scan.
SELECT t.tenant_id, t.id, t.due_at, t.lane, t.losses, t.recurring, t.flow
FROM unnest($1::smallint[]) AS s (shard)
CROSS JOIN LATERAL (
    SELECT task.tenant_id, task.id, task.due_at, task.lane, task.losses,
        task.cron_job_id IS NOT NULL AS recurring, task.flow
    FROM gnomon.task
    WHERE task.state = 0
      AND task.shard = s.shard
      AND task.due_at <= (SELECT gnomon.now() - make_interval(secs => $2))
      AND task.losses <= $5
      -- A node without a pool looks no further. The coalesce keeps the planner from
      -- other indexes, and from guessing how much of a shard is in a pool.
      AND coalesce(NOT $6::boolean OR (
        ($7::text[] IS NULL OR task.tenant_id = ANY ($7))
        AND ($8::smallint[] IS NULL OR task.lane = ANY ($8))
        AND ($9::text[] IS NULL OR task.task_type = ANY ($9))
        AND ($10::text[] IS NULL OR task.queue = ANY ($10))
      ), false)
    ORDER BY task.due_at DESC, task.id DESC
    LIMIT $3
) AS t
LIMIT $4
