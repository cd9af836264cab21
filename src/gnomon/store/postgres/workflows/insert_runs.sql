-- Store runs that differ in nothing but their ids, $2, and how many nodes they have, $14. Their tasks
-- are stored before, in the same transaction.
INSERT INTO gnomon.workflow_run (
    tenant_id, id, workflow, version, definition, fail_fast, input, deadline, created_at, created_by,
    retry_of, rolls_back, cron_job_id, nodes
)
SELECT $1, r.id, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, r.nodes
FROM unnest($2::uuid[], $14::integer[]) AS r (id, nodes)
