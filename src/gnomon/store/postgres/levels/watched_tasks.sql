-- Watched tasks that are to be looked at, with all that judges them: live or archived, and their
-- executions. In one statement, or a task that moves is seen nowhere. Each is a probe by key.
-- $1 how many, $2 seconds that a start may take to be committed.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
), chosen AS MATERIALIZED (
    SELECT tenant_id, task_id, start_judged, slow, told_fence,
        -- Plain SQL can write times and levels that are infinitely far away, or no numbers: one such task
        -- would keep all others from being judged.
        CASE WHEN start_by IS NOT NULL THEN greatest(
            least(start_by, (SELECT now FROM moment) + interval '1000 years'),
            (SELECT now FROM moment) - interval '1000 years'
        ) END AS start_by
    FROM gnomon.watched_task
    WHERE look_at <= (SELECT now FROM moment) - make_interval(secs => $2::float8)
    ORDER BY look_at
    LIMIT $1::integer
    FOR UPDATE SKIP LOCKED
)
SELECT
    c.*, m.now,
    coalesce(t.task_type, a.task_type) AS task_type,
    coalesce(t.cron_job_id, a.cron_job_id) AS cron_job_id,
    coalesce(t.sla_seconds, a.sla_seconds) AS sla_seconds,
    l.warn_after_seconds,
    t.id IS NOT NULL AS live, t.state, t.node IS NOT NULL AS running, t.attempt, t.fence,
    greatest(least(t.due_at, m.now + interval '1000 years'), m.now - interval '1000 years') AS due_at,
    a.id IS NOT NULL AS ended, a.state = 11 AS cancelled, a.finished_at,
    coalesce(t.started_at, a.started_at) AS started_at, e.started_at AS first_started_at,
    s.fence AS slow_fence, s.attempt AS slow_attempt, s.started_at AS slow_started_at,
    s.finished_at AS slow_finished_at
FROM chosen AS c
CROSS JOIN moment AS m
LEFT JOIN LATERAL (
    SELECT id, state, node, attempt, fence, due_at, started_at, task_type, cron_job_id,
        sla_seconds, warn_after_seconds
    FROM gnomon.task
    WHERE tenant_id = c.tenant_id AND id = c.task_id
    LIMIT 1
) AS t ON true
LEFT JOIN LATERAL (
    SELECT id, state, attempt, fence, started_at, finished_at, task_type, cron_job_id,
        sla_seconds, warn_after_seconds
    FROM gnomon.task_archive
    WHERE tenant_id = c.tenant_id AND id = c.task_id
    LIMIT 1
) AS a ON true
CROSS JOIN LATERAL (
    SELECT CASE WHEN w.seconds IS NOT NULL
        THEN least(greatest(w.seconds, 0), 1e10) END AS warn_after_seconds
    FROM (SELECT coalesce(t.warn_after_seconds, a.warn_after_seconds) AS seconds) AS w
) AS l
LEFT JOIN LATERAL (
    SELECT min(started_at) AS started_at
    FROM gnomon.execution
    WHERE tenant_id = c.tenant_id AND task_id = c.task_id
) AS e ON true
LEFT JOIN LATERAL (
    SELECT x.fence, x.attempt, x.started_at, x.finished_at
    FROM (
        SELECT fence, attempt, started_at, finished_at
        FROM gnomon.execution
        WHERE tenant_id = c.tenant_id AND task_id = c.task_id
        UNION ALL
        SELECT a.fence, a.attempt, a.started_at, a.finished_at WHERE a.state = 10
    ) AS x
    WHERE x.fence > c.told_fence
      AND x.finished_at - x.started_at
        >= make_interval(secs => l.warn_after_seconds)
    ORDER BY x.fence DESC
    LIMIT 1
) AS s ON true
