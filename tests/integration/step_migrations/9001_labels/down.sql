ALTER TABLE gnomon.task DROP CONSTRAINT IF EXISTS label_is_not_empty;
DROP INDEX IF EXISTS gnomon.task_by_label;
ALTER TABLE gnomon.task DROP COLUMN IF EXISTS label;
