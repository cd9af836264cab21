-- Workflows: definitions by name and version. They are never changed.
CREATE TABLE gnomon.workflow (
    tenant_id  text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    version    integer NOT NULL,
    digest     bytea NOT NULL,          -- of what the definition means: the same one is not kept twice
    definition json NOT NULL,
    created_at timestamptz NOT NULL,
    created_by text,
    PRIMARY KEY (tenant_id, name, version)
);
SELECT gnomon.wall('gnomon.workflow', 'SELECT, INSERT, DELETE');

-- Runs. state: 0 running, 1 being cancelled, 2 being rolled back, 10 succeeded, 11 failed, 12 cancelled,
-- 13 rolled back. The API changes no task of a run that it cancels or pauses: it says so here, and a
-- chore follows.
CREATE TABLE gnomon.workflow_run (
    tenant_id   text COLLATE "C" NOT NULL,
    id          uuid NOT NULL,
    workflow    text COLLATE "C",       -- null: it was submitted with its definition
    version     integer,
    definition  json,                   -- of those
    state       smallint NOT NULL DEFAULT 0,
    paused      boolean NOT NULL DEFAULT false,
    held        boolean NOT NULL DEFAULT false,  -- tasks of it that wait are paused, too
    fail_fast   boolean NOT NULL DEFAULT false,
    interrupts  boolean NOT NULL DEFAULT false,  -- cancelling it ends executions
    rolls_back  boolean NOT NULL DEFAULT false,  -- where it fails fast or is late, it is rolled back
    compensated boolean NOT NULL DEFAULT false,  -- the tasks of its rollback have been made
    reason      text,                   -- why it is cancelled
    input       json,
    deadline    timestamptz,
    created_at  timestamptz NOT NULL,
    created_by  text,
    finished_at timestamptz,
    retry_of    uuid,
    cron_job_id uuid,                   -- whose run it is: a task of the same id, which ends with it
    PRIMARY KEY (tenant_id, id)
) WITH (fillfactor = 80);
CREATE INDEX workflow_run_of ON gnomon.workflow_run (tenant_id, workflow, id);
CREATE INDEX workflow_run_deadline ON gnomon.workflow_run (deadline)
    WHERE state = 0 AND deadline IS NOT NULL;
CREATE INDEX workflow_run_ended ON gnomon.workflow_run (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX workflow_run_followed ON gnomon.workflow_run (id)
    WHERE state = 1 OR (state = 2 AND NOT compensated) OR paused <> held;
SELECT gnomon.wall('gnomon.workflow_run', 'SELECT, INSERT, UPDATE, DELETE');

-- The nodes of a run, each with its task, and how many nodes it waits for. The hidden node without a
-- name, whose id is the run's, is the end of the run: it waits for the nodes that no other stands for.
-- rule: 0 all_succeeded, 1 all_done, 2 any_failed, 3 any_succeeded. on_failure: 0 fail, 1 skip,
-- 2 continue. step: 0 none, 1 its turn has come, 2 its rule cannot hold any more, 3 it has ended and
-- leaves edges: what is left to do is a chore's; -1 it waits for a signal, or until due_at.
-- kind: 0 a task, 1 a wait, 2 mapped over a list: once that is known, it waits for elements, 3 one of
-- those, 4 spawned by another. The places of elements and spawned nodes begin at 10 000 000.
CREATE TABLE gnomon.workflow_node (
    tenant_id  text COLLATE "C" NOT NULL,
    task_id    uuid NOT NULL,
    run_id     uuid NOT NULL,
    node       text NOT NULL,
    place      integer NOT NULL,        -- among the nodes of the definition
    kind       smallint NOT NULL DEFAULT 0,
    after      text[] NOT NULL DEFAULT '{}',
    rule       smallint NOT NULL DEFAULT 0,
    on_failure smallint NOT NULL DEFAULT 0,
    parents    integer NOT NULL DEFAULT 0,
    waits      integer NOT NULL DEFAULT 0,
    succeeded  integer NOT NULL DEFAULT 0,
    failed     integer NOT NULL DEFAULT 0,
    decided    boolean NOT NULL DEFAULT false,  -- whether its turn has come, or never will
    step       smallint NOT NULL DEFAULT 0,
    template   json,                    -- what is worked out when its turn has come; null once it is
    signal     text,                    -- that it waits for, once its turn has come
    due_at     timestamptz,             -- likewise: until when
    borrows    uuid,                    -- the task of another run that this node has its result from
    compensates text,                   -- the node that this one undoes, in a rollback
    elements   integer,                 -- of a mapped node, once its list is known: so many
    expanded   integer NOT NULL DEFAULT 0,  -- of them, those that have tasks
    PRIMARY KEY (tenant_id, task_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
CREATE INDEX workflow_node_of ON gnomon.workflow_node (tenant_id, run_id, place);
CREATE INDEX workflow_node_step ON gnomon.workflow_node (run_id, task_id) WHERE step > 0;
CREATE INDEX workflow_node_due ON gnomon.workflow_node (due_at) WHERE step = -1 AND due_at IS NOT NULL;
CREATE INDEX workflow_node_signal ON gnomon.workflow_node (tenant_id, run_id, signal) WHERE step = -1;
SELECT gnomon.wall('gnomon.workflow_node', 'SELECT, INSERT, UPDATE, DELETE');

-- Edges that are not used yet. Using one deletes it and counts for its child, both in one transaction:
-- whether others are left is never asked. at_death: a dead letter uses it.
CREATE TABLE gnomon.workflow_edge (
    tenant_id text COLLATE "C" NOT NULL,
    parent_id uuid NOT NULL,
    child_id  uuid NOT NULL,
    at_death  boolean NOT NULL,
    PRIMARY KEY (tenant_id, parent_id, child_id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
SELECT gnomon.wall('gnomon.workflow_edge', 'SELECT, INSERT, UPDATE, DELETE');

-- What became of nodes. state: 1 succeeded, 2 failed, 3 skipped, 4 cancelled. Outputs are kept here:
-- archives of tasks may be dropped while a run lives.
CREATE TABLE gnomon.workflow_result (
    tenant_id   text COLLATE "C" NOT NULL,
    task_id     uuid NOT NULL,
    run_id      uuid NOT NULL,
    node        text NOT NULL,
    state       smallint NOT NULL,
    finished_at timestamptz NOT NULL,
    output      json,
    too_large   boolean NOT NULL DEFAULT false,  -- the output, to be kept
    completed   boolean NOT NULL DEFAULT false,  -- its task has succeeded, whatever the node counts as
    PRIMARY KEY (tenant_id, task_id)
);
CREATE INDEX workflow_result_of ON gnomon.workflow_result (tenant_id, run_id, node);
SELECT gnomon.wall('gnomon.workflow_result', 'SELECT, INSERT, UPDATE, DELETE');

-- Signals that were sent to runs, the first of each name; a node may wait for one that is already there.
CREATE TABLE gnomon.workflow_signal (
    tenant_id text COLLATE "C" NOT NULL,
    run_id    uuid NOT NULL,
    name      text COLLATE "C" NOT NULL,
    data      json,
    sent_at   timestamptz NOT NULL,
    sent_by   text,
    PRIMARY KEY (tenant_id, run_id, name)
);
SELECT gnomon.wall('gnomon.workflow_signal', 'SELECT, INSERT, DELETE');
