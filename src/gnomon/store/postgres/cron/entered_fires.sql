-- Which of these fires have had a run, or will. One that was missed has not.
SELECT fire_at FROM gnomon.occurrence
WHERE cron_job_id = $1 AND fire_at = ANY ($2::timestamptz[]) AND task_id IS NOT NULL
