DROP TABLE gnomon.event;
DROP TABLE gnomon.occurrence;
DROP TABLE gnomon.cron_job;
DROP INDEX gnomon.task_queued;
DROP INDEX gnomon.task_unstarted;
-- What is queued or gated has no job any more that could let it start.
UPDATE gnomon.task SET state = 0 WHERE state = 3 AND cron_job_id IS NOT NULL;
ALTER TABLE gnomon.task DROP COLUMN fire_at, DROP COLUMN gated;
