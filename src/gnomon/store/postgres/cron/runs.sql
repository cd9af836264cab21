-- The ledger of a job from the latest fire back, with what became of each run: live and finished
-- in one snapshot. $3 the cursor, $4 how many.
SELECT
    o.cron_job_id, o.fire_at, o.kind, o.task_id, o.skipped, o.missed, o.sla_missed_at,
    coalesce(t.state, a.state) AS state,
    coalesce(t.due_at, a.execute_at) AS due_at,
    coalesce(t.started_at, a.started_at) AS started_at,
    a.finished_at,
    coalesce(t.attempt, a.attempt) AS attempt,
    coalesce(t.last_error, a.last_error) AS last_error,
    (SELECT gnomon.now()) AS now
FROM (
    SELECT * FROM gnomon.occurrence
    WHERE cron_job_id = $2 AND tenant_id = $1 AND fire_at < $3
    ORDER BY fire_at DESC
    LIMIT $4
) AS o
LEFT JOIN gnomon.task AS t ON t.tenant_id = $1 AND t.id = o.task_id
LEFT JOIN gnomon.task_archive AS a ON a.tenant_id = $1 AND a.id = o.task_id
ORDER BY o.fire_at DESC
