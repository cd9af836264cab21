-- Cancel the run of a workflow that a run of a cron job stands for: it ends with it. Nothing where it
-- stands for none.
UPDATE gnomon.workflow_run
SET state = CASE WHEN state = 0 THEN 1 ELSE state END,
    reason = CASE WHEN state = 0 THEN 'the next run of its cron job came' ELSE reason END,
    interrupts = true, paused = false, held = false
WHERE tenant_id = $1 AND id = $2 AND state < 10
RETURNING id
