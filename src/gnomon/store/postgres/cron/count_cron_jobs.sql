-- How many cron jobs a tenant has, finished and paused ones among them.
SELECT count(*) FROM gnomon.cron_job WHERE tenant_id = $1
