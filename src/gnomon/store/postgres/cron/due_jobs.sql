-- The cron jobs of each shard that fire soon: see gnomon.read_due_jobs.
SELECT * FROM gnomon.read_due_jobs($1, $2, $3)
