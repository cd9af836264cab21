DROP INDEX IF EXISTS gnomon.task_dead_unknown;
DROP INDEX IF EXISTS gnomon.task_dead_member;
DROP INDEX IF EXISTS gnomon.task_dead_group;
DROP TABLE gnomon.resolution;
ALTER TABLE gnomon.task DROP COLUMN fingerprint;
