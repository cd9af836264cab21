-- The queued runs of these jobs, in the order of their fires.
SELECT t.tenant_id, t.id, t.cron_job_id, o.kind
FROM unnest($1::text[], $2::uuid[]) AS k (tenant_id, id)
JOIN gnomon.task AS t ON t.cron_job_id = k.id AND t.tenant_id = k.tenant_id AND t.state = 3
LEFT JOIN gnomon.occurrence AS o ON o.cron_job_id = t.cron_job_id AND o.fire_at = t.fire_at
ORDER BY t.cron_job_id, t.fire_at
