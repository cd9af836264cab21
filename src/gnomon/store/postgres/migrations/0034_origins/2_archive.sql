-- A finished task keeps it.
ALTER TABLE gnomon.task_archive ADD COLUMN origin json;
