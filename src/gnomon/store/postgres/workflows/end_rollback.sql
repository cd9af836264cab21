-- Nothing was to be undone: the run has been rolled back, and the run of the cron job, if there is one,
-- looks at it now; where somebody holds that, it does so later by itself.
WITH finish AS (
    UPDATE gnomon.workflow_node SET step = 0 WHERE tenant_id = $1 AND task_id = $2
), fire AS (
    UPDATE gnomon.task AS t SET due_at = gnomon.now()
    FROM (
        SELECT f.ctid FROM gnomon.task AS f
        WHERE f.tenant_id = $1 AND f.id = $2 AND f.state + 0 = 0
        FOR UPDATE SKIP LOCKED
    ) AS f
    WHERE t.ctid = f.ctid
)
UPDATE gnomon.workflow_run SET state = 13, compensated = true, finished_at = gnomon.now()
WHERE tenant_id = $1 AND id = $2
