ALTER TABLE gnomon.task_archive
    ADD COLUMN workflow_run_id uuid,
    ADD COLUMN workflow_node   text;
