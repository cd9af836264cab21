-- Remove a cron job. Its ledger stays as long as history does.
DELETE FROM gnomon.cron_job WHERE tenant_id = $1 AND id = $2
