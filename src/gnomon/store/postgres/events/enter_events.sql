-- Enter events. One that is there already with another detail has grown: it is brought up to date, and
-- is told again under a new number. $1 to $7: tenants, ids, kinds, times (null: now), cron jobs, tasks,
-- details.
INSERT INTO gnomon.event AS e (tenant_id, id, kind, at, cron_job_id, task_id, detail)
SELECT n.tenant_id, n.id, n.kind, coalesce(n.at, (SELECT gnomon.now())), n.cron_job_id, n.task_id,
    n.detail
FROM unnest(
    $1::text[], $2::uuid[], $3::text[], $4::timestamptz[], $5::uuid[], $6::uuid[], $7::json[]
) AS n (tenant_id, id, kind, at, cron_job_id, task_id, detail)
ORDER BY n.tenant_id, n.id
ON CONFLICT (tenant_id, id) DO UPDATE
SET detail = excluded.detail, at = excluded.at, number = NULL
WHERE e.detail::text <> excluded.detail::text
