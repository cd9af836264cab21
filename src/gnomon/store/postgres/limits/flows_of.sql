-- What the flows of some live tasks are, as far as limits ask, and the hints that would be given of
-- them now: one probe of the primary key each.
SELECT t.tenant_id, t.id, t.due_at, t.lane, t.losses, t.cron_job_id IS NOT NULL AS recurring, t.flow,
    gnomon.is_by_handler(t.target) AS by_handler, t.task_type, t.queue, t.limit_keys
FROM unnest($1::text[], $2::uuid[]) AS k (tenant_id, id)
CROSS JOIN LATERAL (
    SELECT * FROM gnomon.task WHERE task.tenant_id = k.tenant_id AND task.id = k.id
    OFFSET 0  -- a probe for each, never a join
) AS t
