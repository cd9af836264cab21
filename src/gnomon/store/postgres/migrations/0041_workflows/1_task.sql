-- The run of a workflow that a task is a node of, and the node's name. The version before neither reads
-- nor writes them; what it settles passes the triggers of the last step.
ALTER TABLE gnomon.task
    ADD COLUMN workflow_run_id uuid,
    ADD COLUMN workflow_node   text;
