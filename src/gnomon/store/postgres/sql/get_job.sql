-- One cron job, by its id or its name.
SELECT * FROM gnomon.cron_job WHERE tenant_id = $1 AND (id = $2 OR name = $3)
