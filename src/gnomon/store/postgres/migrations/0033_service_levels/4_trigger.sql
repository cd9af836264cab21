-- Whoever inserts a task, plain SQL included; the condition is all that a task without a level costs.
CREATE TRIGGER watch_new_task AFTER INSERT ON gnomon.task
    FOR EACH ROW
    WHEN (NEW.sla_seconds IS NOT NULL OR NEW.warn_after_seconds IS NOT NULL)
    EXECUTE FUNCTION gnomon.watch_new_task();
