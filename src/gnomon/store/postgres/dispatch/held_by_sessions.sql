-- The tasks that run on sessions ($1), as their rows say, with all that their ends are decided by.
SELECT t.tenant_id, t.id, t.fence, t.node, n.name AS worker, coalesce(n.kind = 2, false) AS remote, t.attempt,
    t.retries_left, t.losses, t.retry_policy, t.cancel_requested, t.delivery, t.begun, t.target,
    t.task_type, t.lane, t.flow, t.cron_job_id IS NOT NULL AS recurring, t.origin,
    0::float8 AS silent_seconds, t.preemptible, t.timeout_seconds,
    date_part('epoch', t.started_at) AS started_at, n.gateway
FROM unnest($1::uuid[]) AS s (incarnation)
JOIN gnomon.node AS n ON n.incarnation = s.incarnation
CROSS JOIN LATERAL (
    SELECT * FROM gnomon.task WHERE task.state = 1 AND task.node = s.incarnation OFFSET 0
) AS t
