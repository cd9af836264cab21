-- Weeks of tenant $1 from $2 to before $3, newest first: of the type $4 and of the job $5, unless null.
-- At most $6 rows.
SELECT s.week, s.task_type, nullif(s.cron_job_id, '00000000-0000-0000-0000-000000000000') AS cron_job_id,
    j.name AS cron_job, s.start_kept, s.start_missed, s.run_kept, s.run_missed
FROM gnomon.service_level AS s
LEFT JOIN gnomon.cron_job AS j ON j.tenant_id = s.tenant_id AND j.id = s.cron_job_id
WHERE s.tenant_id = $1 AND s.week >= $2::date AND s.week < $3::date
  AND ($4::text IS NULL OR s.task_type = $4)
  AND ($5::uuid IS NULL OR s.cron_job_id = $5)
ORDER BY s.week DESC, s.task_type, j.name NULLS FIRST, s.cron_job_id
LIMIT $6::integer
