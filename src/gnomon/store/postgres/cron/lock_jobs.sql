-- Keep others from deciding about the runs of these jobs, until the transaction ends.
SELECT j.*
FROM gnomon.cron_job AS j
JOIN unnest($1::text[], $2::uuid[]) AS k (tenant_id, id)
    ON j.tenant_id = k.tenant_id AND j.id = k.id
ORDER BY j.id
FOR UPDATE OF j
