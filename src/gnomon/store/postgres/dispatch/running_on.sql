-- The tasks that run on one node, as their rows say.
SELECT t.tenant_id, t.id, t.fence, t.node, n.name AS worker, coalesce(n.kind = 2, false) AS remote, t.attempt,
    t.retries_left, t.losses, t.retry_policy, t.cancel_requested, t.delivery, t.begun, t.target,
    t.task_type, t.lane, t.flow, t.cron_job_id IS NOT NULL AS recurring, t.origin,
    0::float8 AS silent_seconds
FROM gnomon.task AS t LEFT JOIN gnomon.node AS n ON n.incarnation = t.node
WHERE t.state = 1 AND t.node = $1
