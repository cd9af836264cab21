-- Tasks that run on dead nodes, as their rows say. One that is locked is just being completed, or taken
-- over by another: it is left out, or the whole sweep would wait for it.
SELECT t.tenant_id, t.id, t.fence, t.node, n.name AS worker, coalesce(n.kind = 2, false) AS remote, t.attempt,
    t.retries_left, t.losses, t.retry_policy, t.cancel_requested, t.delivery, t.begun, t.target,
    t.task_type, t.lane, t.flow, t.cron_job_id IS NOT NULL AS recurring, t.origin,
    extract(epoch FROM (SELECT gnomon.now()) - n.alive_until)::float8 AS silent_seconds,
    coalesce(t.started_at = t.due_at AND t.due_at > (SELECT gnomon.now()), false) AS early
FROM gnomon.node AS n
CROSS JOIN LATERAL (
    SELECT * FROM gnomon.task WHERE task.state = 1 AND task.node = n.incarnation LIMIT $1
    FOR UPDATE SKIP LOCKED
) AS t
WHERE n.dead
LIMIT $1
