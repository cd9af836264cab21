DROP TRIGGER IF EXISTS log_deleted_tasks ON gnomon.task_archive;
DROP TRIGGER IF EXISTS log_gone_task ON gnomon.task;
DROP TRIGGER IF EXISTS log_changed_task ON gnomon.task;
DROP TRIGGER IF EXISTS log_new_task ON gnomon.task;
DROP FUNCTION IF EXISTS gnomon.log_deleted_tasks();
DROP FUNCTION IF EXISTS gnomon.log_gone_task();
DROP FUNCTION IF EXISTS gnomon.log_changed_task();
DROP FUNCTION IF EXISTS gnomon.log_new_task();
DROP FUNCTION IF EXISTS gnomon.append_transition(
    text, uuid, integer, integer, integer, bigint, uuid, boolean
);
DROP TABLE IF EXISTS gnomon.transition;
ALTER TABLE gnomon.task DROP COLUMN IF EXISTS log_transitions;
