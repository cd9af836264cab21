-- The batch that a task is a member of, or a callback of: those have a name in workflow_node. The version
-- before neither reads nor writes it; what it settles passes the triggers of the last step.
ALTER TABLE gnomon.task ADD COLUMN batch_id uuid;
