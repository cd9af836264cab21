-- The next due tasks of each flow, after the place up to which it was read.
-- $1/$2/$3 the flows, $4/$5 the place of each (due_at, id), $6 how many of each, $7 shards.
SELECT t.tenant_id, t.id, t.due_at, t.lane, t.losses, t.recurring, t.flow
FROM unnest(
    $1::text[], $2::smallint[], $3::bigint[], $4::timestamptz[], $5::uuid[], $6::integer[]
) AS f (tenant_id, lane, flow, after_due, after_id, most)
CROSS JOIN LATERAL (
    SELECT task.tenant_id, task.id, task.due_at, task.lane, task.losses,
        task.cron_job_id IS NOT NULL AS recurring, task.flow
    FROM gnomon.task
    WHERE task.state = 0
      AND task.tenant_id = f.tenant_id
      AND task.lane = f.lane
      AND task.flow = f.flow
      AND (task.due_at, task.id) > (f.after_due, f.after_id)
      AND task.due_at <= (SELECT gnomon.now())
      AND task.shard = ANY ($7::smallint[])
    ORDER BY task.due_at, task.id
    LIMIT f.most
) AS t
