CREATE INDEX CONCURRENTLY task_by_label ON gnomon.task (tenant_id, label);
