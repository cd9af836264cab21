-- The dead letters of a group, in the order of lists and of bulk operations.
CREATE INDEX CONCURRENTLY task_dead_member ON gnomon.task (tenant_id, fingerprint, id) WHERE state = 4;
