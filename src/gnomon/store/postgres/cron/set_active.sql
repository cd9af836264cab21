-- Name the active tasks of jobs that this transaction has locked.
UPDATE gnomon.cron_job AS j
SET active_task_id = k.task_id
FROM unnest($1::text[], $2::uuid[], $3::uuid[]) AS k (tenant_id, id, task_id)
WHERE j.tenant_id = k.tenant_id AND j.id = k.id
