-- A page of cron jobs, newest first. $2 the cursor, $3 how many, $4 how many to look at; the rest
-- are filters, null: all.
SELECT *
FROM (
    SELECT * FROM gnomon.cron_job
    WHERE tenant_id = $1 AND id < $2
    ORDER BY id DESC
    LIMIT $4
) AS looked_at
WHERE ($5::text IS NULL OR strpos(lower(name), lower($5)) > 0)
  AND ($6::text IS NULL OR tags ? $6)
  AND ($7::boolean IS NULL OR (paused_at IS NOT NULL) = $7)
  AND ($8::text IS NULL OR source = $8)
  AND ($9::timestamptz IS NULL OR next_fire_at < $9)
ORDER BY id DESC
LIMIT $3
