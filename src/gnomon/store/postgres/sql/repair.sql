-- Look again behind the cursors, for rows that committed late, were written by plain SQL, or
-- became waiting again: what a cursor alone would never see.
-- $1 shards, $2/$3 the cursor of each, $4/$5 due from and to, $6 entries a shard at most.
SELECT t.tenant_id, t.id, t.due_at, t.lane, t.losses, t.recurring, t.flow
FROM unnest($1::smallint[], $2::timestamptz[], $3::uuid[]) AS s (shard, after_due, after_id)
CROSS JOIN LATERAL (
    SELECT task.tenant_id, task.id, task.due_at, task.lane, task.losses,
        task.cron_job_id IS NOT NULL AS recurring, task.flow
    FROM gnomon.task
    WHERE task.state = 0
      AND task.shard = s.shard
      AND task.due_at >= $4
      AND task.due_at <= $5
      AND (task.due_at, task.id) <= (s.after_due, s.after_id)
    ORDER BY task.due_at, task.id
    LIMIT $6
) AS t
