-- One cron job, by its id or its name. As its active run it shows one that has really started and
-- not ended: the column itself may name one that is over, or only planned.
SELECT j.*, t.id AS active_run
FROM gnomon.cron_job AS j
LEFT JOIN gnomon.task AS t
    ON t.tenant_id = j.tenant_id AND t.id = j.active_task_id AND t.attempt > 0 AND t.state <> 4
WHERE j.tenant_id = $1 AND (j.id = $2 OR j.name = $3)
