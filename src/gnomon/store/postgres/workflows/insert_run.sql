-- Store a run. Its tasks are stored before, in the same transaction.
INSERT INTO gnomon.workflow_run (
    tenant_id, id, workflow, version, definition, fail_fast, input, deadline, created_at, created_by,
    retry_of, rolls_back, cron_job_id, nodes
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
