-- Look again behind the cursors, for rows that committed late, were written by plain SQL, or
-- became waiting again: what a cursor alone would never see.
-- $1 shards, $2/$3 the cursor of each, $4/$5 due from and to, $6 entries a shard at most, $7 to $12
-- the pool, as in scan.
SELECT t.tenant_id, t.id, t.due_at, t.lane, t.losses, t.recurring, t.flow
FROM unnest($1::smallint[], $2::timestamptz[], $3::uuid[], $12::jsonb[])
    AS s (shard, after_due, after_id, others)
CROSS JOIN LATERAL (
    SELECT task.tenant_id, task.id, task.due_at, task.lane, task.losses,
        task.cron_job_id IS NOT NULL AS recurring, task.flow
    FROM gnomon.task
    WHERE task.state = 0
      AND task.shard = s.shard
      AND task.due_at >= $4
      AND task.due_at <= $5
      AND (task.due_at, task.id) <= (s.after_due, s.after_id)
      -- A node without a pool looks no further. The coalesce keeps the planner from
      -- other indexes, and from guessing how much of a shard is in a pool.
      AND coalesce(NOT $7::boolean OR (
        ($8::text[] IS NULL OR task.tenant_id = ANY ($8))
        AND ($9::smallint[] IS NULL OR task.lane = ANY ($9))
        AND ($10::text[] IS NULL OR task.task_type = ANY ($10))
        AND ($11::text[] IS NULL OR task.queue = ANY ($11))
        AND (s.others IS NULL OR NOT gnomon.in_a_pool(
            s.others, task.tenant_id, task.lane, task.task_type, task.queue
        ))
      ), false)
    ORDER BY task.due_at, task.id
    LIMIT $6
) AS t
