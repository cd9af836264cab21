-- Members of a batch that have not ended, to cancel them.
CREATE INDEX CONCURRENTLY task_batch ON gnomon.task (tenant_id, batch_id, id) WHERE batch_id IS NOT NULL
