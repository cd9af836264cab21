DROP TRIGGER IF EXISTS watch_new_task ON gnomon.task;
DROP FUNCTION IF EXISTS gnomon.watch_new_task();
DROP FUNCTION IF EXISTS gnomon.watch_tasks(text, uuid[]);
DROP FUNCTION IF EXISTS gnomon.watched(gnomon.task);
DROP TABLE IF EXISTS gnomon.stuck_task;
DROP TABLE IF EXISTS gnomon.service_level;
DROP TABLE IF EXISTS gnomon.watched_task;
ALTER TABLE gnomon.task_archive
    DROP COLUMN IF EXISTS sla_seconds,
    DROP COLUMN IF EXISTS warn_after_seconds;
ALTER TABLE gnomon.task
    DROP COLUMN IF EXISTS sla_seconds,
    DROP COLUMN IF EXISTS warn_after_seconds;
