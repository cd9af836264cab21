-- Jobs of these shards that have queued runs. A run lies in the shard of its job.
SELECT DISTINCT tenant_id, cron_job_id
FROM gnomon.task
WHERE state = 3 AND cron_job_id IS NOT NULL AND shard = ANY ($1::smallint[])
LIMIT $2
