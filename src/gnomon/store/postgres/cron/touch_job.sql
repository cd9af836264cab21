-- Let plans that were made before this change nothing: they do not know of a run that it adds.
UPDATE gnomon.cron_job SET version = version + 1 WHERE tenant_id = $1 AND id = $2
