-- A page of cron jobs, newest first. $2 the cursor, $3 how many, $4 how many to look at; the rest
-- are filters, null: all.
SELECT looked_at.*, t.id AS active_run
FROM (
    SELECT * FROM gnomon.cron_job
    WHERE tenant_id = $1 AND id < $2
    ORDER BY id DESC
    LIMIT $4
) AS looked_at
LEFT JOIN gnomon.task AS t
    ON t.tenant_id = looked_at.tenant_id AND t.id = looked_at.active_task_id
    AND t.attempt > 0 AND t.state <> 4
WHERE ($5::text IS NULL OR strpos(lower(looked_at.name), lower($5)) > 0)
  AND ($6::text IS NULL OR looked_at.tags ? $6)
  AND ($7::boolean IS NULL OR (paused_at IS NOT NULL) = $7)
  AND ($8::text IS NULL OR source = $8)
  AND ($9::timestamptz IS NULL OR next_fire_at < $9)
ORDER BY looked_at.id DESC
LIMIT $3
