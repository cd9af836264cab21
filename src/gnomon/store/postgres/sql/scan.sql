-- Read ahead: the next waiting tasks of each shard after its cursor, due before the horizon.
-- $1 shards, $2/$3 the cursor of each (due_at, id), $4 the horizon, $5 entries a shard at most,
-- $6 whether the node has a pool or others have one, $7 to $10 what it serves: tenants, lanes, types
-- and queues, null for all; $11 the pools of others that go first in each shard.
SELECT t.tenant_id, t.id, t.due_at, t.lane, t.losses, t.recurring, t.flow
FROM unnest($1::smallint[], $2::timestamptz[], $3::uuid[], $11::jsonb[])
    AS s (shard, after_due, after_id, others)
CROSS JOIN LATERAL (
    SELECT task.tenant_id, task.id, task.due_at, task.lane, task.losses,
        task.cron_job_id IS NOT NULL AS recurring, task.flow
    FROM gnomon.task
    WHERE task.state = 0
      AND task.shard = s.shard
      AND (task.due_at, task.id) > (s.after_due, s.after_id)
      AND task.due_at <= $4
      -- A node without a pool looks no further. The coalesce keeps the planner from
      -- other indexes, and from guessing how much of a shard is in a pool.
      AND coalesce(NOT $6::boolean OR (
        ($7::text[] IS NULL OR task.tenant_id = ANY ($7))
        AND ($8::smallint[] IS NULL OR task.lane = ANY ($8))
        AND ($9::text[] IS NULL OR task.task_type = ANY ($9))
        AND ($10::text[] IS NULL OR task.queue = ANY ($10))
        AND (s.others IS NULL OR NOT gnomon.in_a_pool(
            s.others, task.tenant_id, task.lane, task.task_type, task.queue
        ))
      ), false)
    ORDER BY task.due_at, task.id
    LIMIT $5
) AS t
