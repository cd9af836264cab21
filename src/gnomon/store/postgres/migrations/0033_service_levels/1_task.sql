-- The service levels of a task: by when, after it is due, it must have started, and how long an
-- execution may run before somebody is told. Null: none. The version before neither reads nor writes them.
ALTER TABLE gnomon.task
    ADD COLUMN sla_seconds double precision,
    ADD COLUMN warn_after_seconds double precision;
