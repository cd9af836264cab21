-- Pause the tasks of a run that wait (PAUSE -> PAUSED), and say that it is held. Not that of the cron job
-- whose run it is, which has the id of its end: that one ends with it.
WITH node AS MATERIALIZED (
    SELECT t.ctid
    FROM gnomon.workflow_node AS n
    CROSS JOIN LATERAL (
        SELECT task.ctid FROM gnomon.task
        WHERE task.tenant_id = n.tenant_id AND task.id = n.task_id AND task.state + 0 = 0
        FOR UPDATE SKIP LOCKED
    ) AS t
    WHERE n.tenant_id = $1 AND n.run_id = $2 AND n.node <> ''
), moved AS (
    UPDATE gnomon.task AS t SET state = 2 FROM node AS n WHERE t.ctid = n.ctid
)
UPDATE gnomon.workflow_run SET held = true WHERE tenant_id = $1 AND id = $2 AND paused
