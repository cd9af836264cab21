-- The queued runs of these jobs, in the order of their fires.
SELECT t.tenant_id, t.id, t.cron_job_id, o.kind
FROM unnest($1::text[], $2::uuid[]) AS k (tenant_id, id)
CROSS JOIN LATERAL (
    SELECT * FROM gnomon.task
    WHERE task.cron_job_id = k.id AND task.tenant_id || '' = k.tenant_id AND task.state = 3
    OFFSET 0  -- a probe for each, never a join
) AS t
LEFT JOIN LATERAL (
    SELECT kind FROM gnomon.occurrence
    WHERE occurrence.cron_job_id = t.cron_job_id AND occurrence.fire_at = t.fire_at
    LIMIT 1  -- keeps the plan from reading the whole ledger
) AS o ON true
ORDER BY t.cron_job_id, t.fire_at
