-- What a tenant uses of its quotas; of those that are asked for, because counting takes its time.
-- $1 tenant, $2 scheduled tasks?, $3 submissions of the last second?, $4 cron jobs?, $5 bytes?
SELECT
    CASE WHEN $2 THEN gnomon.scheduled_tasks($1) END AS scheduled_tasks,
    CASE WHEN $3 THEN coalesce((
        SELECT sum(e.number)
        FROM gnomon.tenant_pace AS p CROSS JOIN LATERAL unnest(p.moments, p.numbers) AS e (at, number)
        WHERE p.tenant_id = $1 AND e.at > (SELECT gnomon.now()) - interval '1 second'
    ), 0) END AS submissions_per_second,
    CASE WHEN $4 THEN (SELECT count(*) FROM gnomon.cron_job WHERE tenant_id = $1) END AS cron_jobs,
    CASE WHEN $5 THEN gnomon.stored_bytes($1) END AS stored_bytes
