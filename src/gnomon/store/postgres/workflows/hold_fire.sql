-- Say that the run of a cron job has a run of a workflow under its own id, by the node that runs it.
UPDATE gnomon.task SET workflow_run_id = id
WHERE tenant_id = $1 AND id = $2 AND fence = $3 AND node = $4 AND state + 0 = 1
RETURNING cron_job_id
