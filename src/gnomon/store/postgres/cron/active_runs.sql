-- The active task of each job, where it is still live, and whether runs of the job are queued.
-- One that comes too late to start, or was only claimed to be archived, keeps no other from starting.
-- $1/$2 jobs (locked before), $3 their active tasks.
SELECT k.tenant_id, k.id AS cron_job_id, t.id, t.state, t.attempt, t.due_at, t.cancel_requested,
    coalesce((
        SELECT true FROM gnomon.task AS q
        WHERE q.cron_job_id = k.id AND q.state = 3 AND q.tenant_id || '' = k.tenant_id
        LIMIT 1  -- a probe for each: of EXISTS a table of all that are queued may be made
    ), false) AS queued,
    (SELECT gnomon.now()) AS now
FROM unnest($1::text[], $2::uuid[], $3::uuid[]) AS k (tenant_id, id, active_task_id)
LEFT JOIN LATERAL (
    SELECT * FROM gnomon.task
    WHERE task.tenant_id = k.tenant_id AND task.id = k.active_task_id
      AND NOT coalesce(
        task.expires_at <= CASE
            WHEN task.attempt = 0 THEN (SELECT gnomon.now())
            WHEN task.attempt = 1 AND task.state = 1 THEN task.started_at
        END, false
      )
    OFFSET 0  -- a probe for each, never a join
) AS t ON true
