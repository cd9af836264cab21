-- Whatever ends a member, plain SQL included, and whatever makes a dead letter of it or tries one again;
-- the conditions are all that other tasks cost. A function for each member that is settled would cost as
-- much again as its settlement.
CREATE TRIGGER note_gone_member AFTER DELETE ON gnomon.task
    FOR EACH ROW WHEN (
        OLD.batch_id IS NOT NULL
        AND current_setting('gnomon.counts_members', true) IS DISTINCT FROM 'on'
    )
    EXECUTE FUNCTION gnomon.note_gone_member();
CREATE TRIGGER note_dead_member AFTER UPDATE OF state ON gnomon.task
    FOR EACH ROW WHEN (
        NEW.batch_id IS NOT NULL AND NEW.workflow_node IS NULL
        AND (NEW.state = 4) <> (OLD.state = 4)
    )
    EXECUTE FUNCTION gnomon.note_dead_member();
