-- Whether a tenant has tasks that have not ended, dead letters among them, or cron jobs.
SELECT
    EXISTS (SELECT FROM gnomon.task WHERE tenant_id = $1) AS tasks,
    EXISTS (SELECT FROM gnomon.cron_job WHERE tenant_id = $1) AS cron_jobs
