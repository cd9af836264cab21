-- Whatever ends a task, plain SQL included; the conditions are all that other tasks cost.
CREATE TRIGGER pass_gone_node AFTER DELETE ON gnomon.task
    FOR EACH ROW WHEN (OLD.workflow_run_id IS NOT NULL) EXECUTE FUNCTION gnomon.pass_gone_node();
CREATE TRIGGER pass_dead_node AFTER UPDATE OF state ON gnomon.task
    FOR EACH ROW WHEN (NEW.state = 4 AND NEW.workflow_run_id IS NOT NULL AND OLD.state <> 4)
    EXECUTE FUNCTION gnomon.pass_dead_node();
