-- Dead letters that hold a run up.
CREATE INDEX CONCURRENTLY task_run_dead ON gnomon.task (tenant_id, workflow_run_id)
    WHERE state = 4 AND workflow_run_id IS NOT NULL
