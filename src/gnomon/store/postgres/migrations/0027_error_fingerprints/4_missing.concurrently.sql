-- Dead letters whose fingerprint is still to be worked out; mostly none.
CREATE INDEX CONCURRENTLY task_dead_unknown ON gnomon.task (id) WHERE state = 4 AND fingerprint IS NULL;
