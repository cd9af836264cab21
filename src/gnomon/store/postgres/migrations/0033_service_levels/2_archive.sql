ALTER TABLE gnomon.task_archive
    ADD COLUMN sla_seconds double precision,
    ADD COLUMN warn_after_seconds double precision;
