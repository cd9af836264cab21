ALTER TABLE gnomon.task_type DROP COLUMN defaults;
