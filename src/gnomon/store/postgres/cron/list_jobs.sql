-- A page of cron jobs, newest first. $2 the cursor, $3 how many, $4 how many to look at; the rest
-- are filters, null: all.
SELECT looked_at.*, t.id AS active_run
FROM (
    SELECT * FROM gnomon.cron_job
    WHERE tenant_id = $1 AND id < $2
    ORDER BY id DESC
    LIMIT $4
) AS looked_at
LEFT JOIN LATERAL (
    SELECT id FROM gnomon.task
    WHERE tenant_id = $1 AND id = looked_at.active_task_id AND attempt > 0 AND state <> 4
    OFFSET 0  -- a probe for each, never a join
) AS t ON true
WHERE ($5::text IS NULL OR strpos(lower(looked_at.name), lower($5)) > 0)
  AND ($6::text IS NULL OR looked_at.tags ? $6)
  AND ($7::boolean IS NULL OR (paused_at IS NOT NULL) = $7)
  AND ($8::text IS NULL OR source = $8)
  AND ($9::timestamptz IS NULL OR next_fire_at < $9)
ORDER BY looked_at.id DESC
LIMIT $3
