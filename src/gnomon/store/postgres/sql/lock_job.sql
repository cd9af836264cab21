-- One cron job, to be changed: nobody else plans, admits or changes it until the transaction ends.
SELECT *, (SELECT gnomon.now()) AS now
FROM gnomon.cron_job
WHERE tenant_id = $1 AND (id = $2 OR name = $3)
FOR UPDATE
