-- What surrounds a task: its next time, its node and its cron job; and what pools ask for. One row,
-- whether it is there or not. $1/$2 the key.
SELECT m.now, t.due_at, t.run_until, n.name AS running_on, coalesce(n.kind = 2, false) AS on_session, j.name AS cron_job,
    j.active_task_id AS active_run, t.lane, t.task_type, t.queue,
    gnomon.is_by_handler(t.target) AS by_handler, s.since AS stuck_since, s.reason AS stuck_reason
FROM (SELECT gnomon.now() AS now) AS m
LEFT JOIN gnomon.task AS t ON t.tenant_id = $1 AND t.id = $2
LEFT JOIN gnomon.node AS n ON n.incarnation = t.node
LEFT JOIN gnomon.stuck_task AS s ON s.tenant_id = t.tenant_id AND s.task_id = t.id
LEFT JOIN gnomon.cron_job AS j ON j.tenant_id = $1 AND j.id = t.cron_job_id
