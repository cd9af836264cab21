-- The fingerprint of the error that a task died of: see gnomon.model.fingerprint. Only dead letters
-- have one, and the version before neither reads nor writes it: what it leaves out, a node that knows
-- fingerprints adds.
ALTER TABLE gnomon.task ADD COLUMN fingerprint bigint;

-- Who has resolved a dead letter, when, and what they noted. Apart from the archive, where a list of
-- the few that are resolved dead letters would need an index that every finished task pays for.
CREATE TABLE gnomon.resolution (
    tenant_id   text COLLATE "C" NOT NULL,
    task_id     uuid NOT NULL,
    resolved_at timestamptz NOT NULL,
    resolved_by text,
    note        text,
    fingerprint bigint,
    PRIMARY KEY (tenant_id, task_id)
);
CREATE INDEX resolution_newest ON gnomon.resolution (tenant_id, resolved_at, task_id);
CREATE INDEX resolution_oldest ON gnomon.resolution (resolved_at);
SELECT gnomon.wall('gnomon.resolution', 'SELECT, INSERT, DELETE');
