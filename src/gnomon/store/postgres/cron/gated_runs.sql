-- Which of these tasks are runs that need their job's consent, and are due.
SELECT t.tenant_id, t.id, t.cron_job_id, t.due_at, t.execute_at, o.kind,
    coalesce(t.expires_at <= m.now, false) AS expired, m.now
FROM (SELECT gnomon.now() AS now) AS m
CROSS JOIN unnest($1::text[], $2::uuid[]) AS k (tenant_id, id)
CROSS JOIN LATERAL (
    SELECT * FROM gnomon.task
    WHERE task.tenant_id = k.tenant_id AND task.id = k.id
      AND task.gated AND task.state + 0 = 0 AND task.due_at <= m.now
    OFFSET 0  -- a probe for each, never a join
) AS t
LEFT JOIN LATERAL (
    SELECT kind FROM gnomon.occurrence
    WHERE occurrence.cron_job_id = t.cron_job_id AND occurrence.fire_at = t.fire_at
    LIMIT 1  -- keeps the plan from reading the whole ledger
) AS o ON true
