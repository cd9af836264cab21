CREATE TRIGGER log_deleted_tasks AFTER DELETE ON gnomon.task_archive
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.log_deleted_tasks();
