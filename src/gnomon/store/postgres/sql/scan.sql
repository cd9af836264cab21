-- Read ahead: the next waiting tasks of each shard after its cursor, due before the horizon.
-- $1 shards, $2/$3 the cursor of each (due_at, id), $4 the horizon, $5 entries a shard at most.
SELECT t.tenant_id, t.id, t.due_at, t.lane, t.losses, t.recurring, t.flow
FROM unnest($1::smallint[], $2::timestamptz[], $3::uuid[]) AS s (shard, after_due, after_id)
CROSS JOIN LATERAL (
    SELECT task.tenant_id, task.id, task.due_at, task.lane, task.losses,
        task.cron_job_id IS NOT NULL AS recurring, task.flow
    FROM gnomon.task
    WHERE task.state = 0
      AND task.shard = s.shard
      AND (task.due_at, task.id) > (s.after_due, s.after_id)
      AND task.due_at <= $4
    ORDER BY task.due_at, task.id
    LIMIT $5
) AS t
