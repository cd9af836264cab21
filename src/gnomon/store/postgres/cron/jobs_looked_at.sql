-- The last cron job that a page has looked at, where it has stopped there. Arguments as in list_jobs.
SELECT id FROM gnomon.cron_job
WHERE tenant_id = $1 AND id < $2
ORDER BY id DESC
OFFSET $3 - 1 LIMIT 1
