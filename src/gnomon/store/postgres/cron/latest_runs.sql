-- The latest fires of jobs that are not in the future, newest first, with what became of each run; and
-- when the last run that succeeded ended, of the latest $4 fires. Each job is walked back from its last
-- fire as far as is asked for, and every task is one probe. $2 the jobs, $3 fires of each.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
)
SELECT
    o.cron_job_id, o.fire_at, o.kind, o.task_id, o.skipped, o.missed, o.sla_missed_at,
    m.now, s.success_at,
    coalesce(t.state, a.state) AS state,
    coalesce(t.due_at, a.execute_at) AS due_at,
    coalesce(t.started_at, a.started_at) AS started_at,
    a.finished_at,
    coalesce(t.attempt, a.attempt) AS attempt,
    coalesce(t.last_error, a.last_error) AS last_error
FROM moment AS m
CROSS JOIN unnest($2::uuid[]) AS j (id)
LEFT JOIN LATERAL (
    SELECT b.finished_at AS success_at
    FROM gnomon.read_latest_fires($1, j.id, m.now, $4) AS e
    CROSS JOIN LATERAL (
        SELECT finished_at FROM gnomon.task_archive
        WHERE tenant_id = $1 AND id = e.task_id AND state = 10
        OFFSET 0  -- a probe for each, never a join
    ) AS b
    ORDER BY e.fire_at DESC
    LIMIT 1
) AS s ON true
CROSS JOIN LATERAL gnomon.read_latest_fires($1, j.id, m.now, $3) AS o
LEFT JOIN LATERAL (
    SELECT state, due_at, started_at, attempt, last_error FROM gnomon.task
    WHERE tenant_id = $1 AND id = o.task_id
    OFFSET 0
) AS t ON true
LEFT JOIN LATERAL (
    SELECT state, execute_at, started_at, finished_at, attempt, last_error
    FROM gnomon.task_archive
    WHERE tenant_id = $1 AND id = o.task_id
    OFFSET 0
) AS a ON true
ORDER BY o.cron_job_id, o.fire_at DESC
