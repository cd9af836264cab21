-- The cron jobs of each shard that fire at or before $2, soonest first, at most $3 a shard.
SELECT j.*
FROM unnest($1::smallint[]) AS s (shard)
CROSS JOIN LATERAL (
    SELECT *
    FROM gnomon.cron_job
    WHERE cron_job.shard = s.shard AND cron_job.next_fire_at <= $2
    ORDER BY cron_job.next_fire_at
    LIMIT $3
) AS j
