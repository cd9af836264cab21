-- Batches, each with a count of what became of its members. state: 0 open, 1 closed, 2 cancelled, 3 it was
-- not closed in time. Who adds members holds the row FOR KEY SHARE, who counts them updates it, and who
-- closes it holds it FOR UPDATE: so only closing waits for those who add, and they for it.
CREATE TABLE gnomon.batch (
    tenant_id    text COLLATE "C" NOT NULL,
    id           uuid NOT NULL,
    name         text,
    state        smallint NOT NULL DEFAULT 0,
    total        integer NOT NULL DEFAULT 0,
    succeeded    integer NOT NULL DEFAULT 0,
    dead         integer NOT NULL DEFAULT 0,  -- letters, which may be tried again
    failed       integer NOT NULL DEFAULT 0,  -- for good: expired, or dead letters that were resolved
    cancelled    integer NOT NULL DEFAULT 0,  -- or deleted
    on_success   uuid,                        -- tasks, BLOCKED until their turn
    on_complete  uuid,
    interrupts   boolean NOT NULL DEFAULT false,  -- cancelling it ends executions
    step         boolean NOT NULL DEFAULT false,  -- something is left to do for the chore
    reason       text,                        -- why it was cancelled, or has expired
    deadline     timestamptz NOT NULL,        -- by when it must be closed
    created_at   timestamptz NOT NULL,
    created_by   text,
    closed_at    timestamptz,
    completed_at timestamptz,                 -- on_complete had its turn
    finished_at  timestamptz,                 -- no member is left; null again where one is tried again
    PRIMARY KEY (tenant_id, id)
) WITH (fillfactor = 50);
CREATE INDEX batch_step ON gnomon.batch (tenant_id, id) WHERE step;
CREATE INDEX batch_open ON gnomon.batch (tenant_id, id) WHERE state = 0;
CREATE INDEX batch_deadline ON gnomon.batch (deadline) WHERE state = 0;
CREATE INDEX batch_ended ON gnomon.batch (finished_at) WHERE finished_at IS NOT NULL;
SELECT gnomon.wall('gnomon.batch', 'SELECT, INSERT, UPDATE, DELETE');

-- What is not yet counted in the row of a batch: members that were added, and those that ended other than
-- by the settling statement. Only ever inserted, so nobody waits; whoever counts takes them, with the row
-- of the batch held.
CREATE TABLE gnomon.batch_note (
    tenant_id text COLLATE "C" NOT NULL,
    batch_id  uuid NOT NULL,
    added     integer NOT NULL DEFAULT 0,
    succeeded integer NOT NULL DEFAULT 0,
    dead      integer NOT NULL DEFAULT 0,
    failed    integer NOT NULL DEFAULT 0,
    cancelled integer NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
CREATE INDEX batch_note_of ON gnomon.batch_note (tenant_id, batch_id);
SELECT gnomon.wall('gnomon.batch_note', 'SELECT, INSERT, DELETE');
