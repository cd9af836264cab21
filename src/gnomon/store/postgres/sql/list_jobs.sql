-- A page of cron jobs, newest first. $2 the cursor, $3 how many; the rest are filters, null: all.
SELECT *
FROM gnomon.cron_job
WHERE tenant_id = $1
  AND id < $2
  AND ($4::text IS NULL OR strpos(lower(name), lower($4)) > 0)
  AND ($5::text IS NULL OR tags ? $5)
  AND ($6::boolean IS NULL OR (paused_at IS NOT NULL) = $6)
  AND ($7::text IS NULL OR source = $7)
  AND ($8::timestamptz IS NULL OR next_fire_at < $8)
ORDER BY id DESC
LIMIT $3
