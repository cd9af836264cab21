-- What became of tasks, added up by the minute and by the hour: written by nodes and API processes every
-- few seconds, apart from the statements that do the work. The version before neither reads nor writes it.
CREATE TABLE gnomon.activity (
    tenant_id text COLLATE "C" NOT NULL,
    span      smallint NOT NULL,        -- minutes that a row is about: 1, or 60
    task_type text COLLATE "C" NOT NULL,  -- '': all types together; the busiest have rows of their own
    starts_at timestamptz NOT NULL,
    lane      smallint NOT NULL,
    submitted bigint NOT NULL,
    started   bigint NOT NULL,          -- executions
    succeeded bigint NOT NULL,          -- executions
    failed    bigint NOT NULL,          -- executions
    dead      bigint NOT NULL,          -- tasks that became dead letters
    seconds   double precision NOT NULL,  -- that executions took, which have ended
    delays    bigint[] NOT NULL,        -- starts, by how late they were: see gnomon.model.activity
    PRIMARY KEY (tenant_id, span, task_type, starts_at, lane)
) WITH (fillfactor = 50);
-- For what is of all tenants, and for the removal of old rows.
CREATE INDEX activity_time ON gnomon.activity (span, starts_at, task_type);
SELECT gnomon.wall('gnomon.activity', 'SELECT');
