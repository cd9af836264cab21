-- How many nodes a run has, with elements and spawned ones, for the quota of them. Null: of a run from
-- before, or of the version before; counted when it is needed.
ALTER TABLE gnomon.workflow_run ADD COLUMN nodes integer;
