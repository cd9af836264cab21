-- The groups of dead letters, and the first and the last of each.
CREATE INDEX CONCURRENTLY task_dead_group ON gnomon.task (tenant_id, fingerprint, due_at, id) WHERE state = 4;
