-- Whatever ends a task, plain SQL included, but for the settling statement, which notes what it ends by
-- itself and says so for as long as it runs: gnomon.notes_outcomes. That of the version before does not.
CREATE TRIGGER note_gone_outcome AFTER DELETE ON gnomon.task
    FOR EACH ROW WHEN (current_setting('gnomon.notes_outcomes', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION gnomon.note_gone_outcome();
CREATE TRIGGER note_dead_outcome AFTER UPDATE OF state ON gnomon.task
    FOR EACH ROW WHEN (
        NEW.state = 4 AND OLD.state <> 4
        AND current_setting('gnomon.notes_outcomes', true) IS DISTINCT FROM 'on'
    )
    EXECUTE FUNCTION gnomon.note_dead_outcome();
