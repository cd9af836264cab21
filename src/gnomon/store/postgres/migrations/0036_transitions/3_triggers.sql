-- Whatever changes a task, plain SQL included; the conditions are all that other tasks cost.
CREATE TRIGGER log_new_task AFTER INSERT ON gnomon.task
    FOR EACH ROW WHEN (NEW.log_transitions) EXECUTE FUNCTION gnomon.log_new_task();
CREATE TRIGGER log_changed_task AFTER UPDATE OF state ON gnomon.task
    FOR EACH ROW WHEN (NEW.log_transitions AND NEW.state <> OLD.state)
    EXECUTE FUNCTION gnomon.log_changed_task();
CREATE TRIGGER log_gone_task AFTER DELETE ON gnomon.task
    FOR EACH ROW WHEN (OLD.log_transitions) EXECUTE FUNCTION gnomon.log_gone_task();
