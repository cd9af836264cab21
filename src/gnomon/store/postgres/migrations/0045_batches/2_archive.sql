ALTER TABLE gnomon.task_archive ADD COLUMN batch_id uuid;
