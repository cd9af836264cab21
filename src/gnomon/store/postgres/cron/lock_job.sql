-- One cron job, to be changed: nobody else plans it, starts its runs or changes it until the transaction ends.
-- active_run as in get_job: to be shown, not to decide by.
SELECT j.*, t.id AS active_run, (SELECT gnomon.now()) AS now
FROM gnomon.cron_job AS j
LEFT JOIN gnomon.task AS t
    ON t.tenant_id = j.tenant_id AND t.id = j.active_task_id AND t.attempt > 0 AND t.state <> 4
WHERE j.tenant_id = $1 AND (j.id = $2 OR j.name = $3)
FOR UPDATE OF j
