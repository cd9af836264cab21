-- Tasks that were made from another one, by a retry or as a duplicate, found from their original. Few tasks
-- are copies. Its rows go by retention, as the tasks do. The version before neither reads nor writes it.
CREATE TABLE gnomon.task_copy (
    tenant_id text COLLATE "C" NOT NULL,
    original  uuid NOT NULL,
    id        uuid NOT NULL,  -- of the copy
    PRIMARY KEY (tenant_id, original, id)
);
-- For the removal of old rows.
CREATE INDEX task_copy_age ON gnomon.task_copy (id);
SELECT gnomon.wall('gnomon.task_copy', 'SELECT, INSERT');
