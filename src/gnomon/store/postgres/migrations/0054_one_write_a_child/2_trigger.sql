-- The settling statement passes the nodes that it ends itself, and says so for as long as it runs, as for
-- members of batches: a call for each that only finds it done costs as much as half of its settlement.
-- A run of a cron job that has started a run of a workflow is not a node, and is always looked at.
CREATE OR REPLACE TRIGGER pass_gone_node AFTER DELETE ON gnomon.task
    FOR EACH ROW WHEN (
        OLD.workflow_run_id IS NOT NULL
        AND (
            OLD.id = OLD.workflow_run_id
            OR current_setting('gnomon.counts_members', true) IS DISTINCT FROM 'on'
        )
    )
    EXECUTE FUNCTION gnomon.pass_gone_node();
