-- What surrounds a task: its next time, its node, and how many due tasks of its shard come first.
-- $1/$2 the key, $3 how far to count.
SELECT m.now, t.due_at, t.run_until, n.name AS running_on, coalesce(a.ahead, 0) AS ahead,
    j.name AS cron_job, j.active_task_id AS active_run
FROM (SELECT gnomon.now() AS now) AS m
LEFT JOIN gnomon.task AS t ON t.tenant_id = $1 AND t.id = $2
LEFT JOIN gnomon.node AS n ON n.incarnation = t.node
LEFT JOIN gnomon.cron_job AS j ON j.tenant_id = $1 AND j.id = t.cron_job_id
LEFT JOIN LATERAL (
    SELECT count(*) AS ahead
    FROM (
        SELECT FROM gnomon.task AS before
        WHERE before.state = 0
          AND before.shard = t.shard
          AND (before.due_at, before.id) < (t.due_at, t.id)
        LIMIT $3
    ) AS earlier
) AS a ON t.state = 0 AND t.due_at <= m.now
