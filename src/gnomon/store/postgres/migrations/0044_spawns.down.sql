ALTER TABLE gnomon.workflow_run DROP COLUMN nodes;
