-- The live ones of these tasks, locked in their order until the transaction ends, newest first as all
-- bulk operations do. Waits for settlements that are under way.
SELECT t.*, (SELECT gnomon.now()) AS now
FROM (SELECT id FROM unnest($2::uuid[]) AS id ORDER BY id DESC) AS c
CROSS JOIN LATERAL (
    SELECT
        task.id, task.state, task.due_at, task.started_at, task.attempt, task.expires_at, task.lane, task.flow,
        task.task_type, task.target, task.cron_job_id, task.workflow_run_id, task.sla_seconds,
        task.warn_after_seconds,
        gnomon.is_by_handler(task.target) AS by_handler
    FROM gnomon.task
    WHERE task.tenant_id = $1 AND task.id = c.id
    FOR UPDATE
) AS t
