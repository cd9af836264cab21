-- Tasks, live and finished, their tries and payloads, idempotency keys, nodes and chores.

CREATE SCHEMA IF NOT EXISTS gnomon;

-- The only clock that decides what is due and who is alive. Statements call it once, as
-- `(SELECT gnomon.now())`. Tests replace it with one that they can turn.
CREATE FUNCTION gnomon.now() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    AS 'SELECT clock_timestamp()';

-- What is still to happen, and the dead letters. state: 0 waiting, 1 running, 2 paused,
-- 3 blocked, 4 dead (gnomon.model.lifecycle.State).
CREATE TABLE gnomon.task (
    tenant_id        text COLLATE "C" NOT NULL,
    id               uuid NOT NULL,
    shard            smallint NOT NULL GENERATED ALWAYS AS (get_byte(uuid_send(id), 15)) STORED,
    lane             smallint NOT NULL DEFAULT 2,
    state            smallint NOT NULL DEFAULT 0,
    delivery         smallint NOT NULL DEFAULT 0,
    losses           smallint NOT NULL DEFAULT 0,
    cancel_requested boolean NOT NULL DEFAULT false,
    execute_at       timestamptz NOT NULL DEFAULT clock_timestamp(),  -- as asked for
    due_at           timestamptz NOT NULL DEFAULT clock_timestamp(),  -- when it runs next
    expires_at       timestamptz,
    started_at       timestamptz,       -- of the last try; while running, when it was claimed
    run_until        timestamptz,       -- while running: when others may take it over
    node             uuid,              -- while running: the incarnation that runs it
    fence            bigint NOT NULL DEFAULT 0,
    attempt          integer NOT NULL DEFAULT 0,
    retries_left     integer NOT NULL DEFAULT 3,
    timeout_seconds  real NOT NULL DEFAULT 30,
    payload_size     integer,           -- set where the payload is in task_payload
    task_type        text NOT NULL,
    name             text,
    target           json NOT NULL,
    payload          json,
    retry_policy     json,              -- null: the default one
    tags             jsonb,
    idempotency_key  text,
    created_by       text,
    last_error       text,
    cron_job_id      uuid,
    retry_of         uuid,
    PRIMARY KEY (tenant_id, id),
    -- Plain SQL may insert tasks (PostgreSQL 18 has uuidv7()), but a random id has no partition to
    -- be archived in, and no time of creation.
    CONSTRAINT id_is_a_uuidv7 CHECK (get_byte(uuid_send(id), 6) >> 4 = 7)
) WITH (
    -- Rows live for one claim and one settlement: vacuum by the count of dead ones, at once.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 1,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_analyze_threshold = 5000
);

CREATE INDEX task_due ON gnomon.task (shard, due_at, id) WHERE state = 0;
-- For the sweeper. No hot statement mentions the state together with the node, or the planner
-- would prefer this index and walk its dead entries.
CREATE INDEX task_running ON gnomon.task (node) WHERE state = 1;
CREATE INDEX task_dead ON gnomon.task (tenant_id, id) WHERE state = 4;

-- What has happened. state: 10 completed, 11 cancelled, 12 expired, 13 resolved dead letter.
-- Cut by id, which is creation order: a lookup touches one partition, and the cursor of a list
-- does not move when a row does.
CREATE TABLE gnomon.task_archive (
    tenant_id        text COLLATE "C" NOT NULL,
    id               uuid NOT NULL,
    lane             smallint NOT NULL,
    state            smallint NOT NULL,
    delivery         smallint NOT NULL,
    execute_at       timestamptz NOT NULL,
    expires_at       timestamptz,
    started_at       timestamptz,
    finished_at      timestamptz NOT NULL,
    fence            bigint NOT NULL,
    attempt          integer NOT NULL,
    timeout_seconds  real NOT NULL,
    payload_size     integer,
    response_status  smallint,
    task_type        text NOT NULL,
    name             text,
    target           json NOT NULL,
    payload          json,
    retry_policy     json,
    tags             jsonb,
    idempotency_key  text,
    created_by       text,
    last_error       text,
    worker           text,
    response_body    text,
    result           json,
    resolution       text,
    cron_job_id      uuid,
    retry_of         uuid,
    PRIMARY KEY (tenant_id, id)
) PARTITION BY RANGE (id);

-- Payloads too large to be moved with their task: written once.
CREATE TABLE gnomon.task_payload (
    tenant_id text COLLATE "C" NOT NULL,
    task_id   uuid NOT NULL,
    payload   json NOT NULL,
    PRIMARY KEY (tenant_id, task_id)
) PARTITION BY RANGE (task_id);

-- Tries that did not succeed. The one that did is on the archive row.
CREATE TABLE gnomon.execution (
    tenant_id       text COLLATE "C" NOT NULL,
    task_id         uuid NOT NULL,
    fence           bigint NOT NULL,
    attempt         integer NOT NULL,
    outcome         smallint NOT NULL,
    response_status smallint,
    started_at      timestamptz,
    finished_at     timestamptz NOT NULL,
    worker          text,
    error           text,
    response_body   text,
    PRIMARY KEY (tenant_id, task_id, fence)
) PARTITION BY RANGE (task_id);

-- Where rows go whose own partition was dropped while their task was still live.
CREATE TABLE gnomon.task_archive_old PARTITION OF gnomon.task_archive
    FOR VALUES FROM (MINVALUE) TO ('00000000-0000-0000-0000-000000000000');
CREATE TABLE gnomon.task_payload_old PARTITION OF gnomon.task_payload
    FOR VALUES FROM (MINVALUE) TO ('00000000-0000-0000-0000-000000000000');
CREATE TABLE gnomon.execution_old PARTITION OF gnomon.execution
    FOR VALUES FROM (MINVALUE) TO ('00000000-0000-0000-0000-000000000000');

-- One request, one answer, for as long as the key is kept.
CREATE TABLE gnomon.idempotency (
    tenant_id   text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    task_id     uuid,
    answer      json NOT NULL,
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, key)
);
CREATE INDEX idempotency_expiry ON gnomon.idempotency (expires_at);

-- One row for each life of each node. `beat` grows with every renewal: a peer that saw it stand
-- still for a whole lease, while its own renewals went through, may declare the node dead.
CREATE TABLE gnomon.node (
    incarnation uuid PRIMARY KEY,
    name        text NOT NULL,
    version     text NOT NULL,
    slots       integer NOT NULL,
    started_at  timestamptz NOT NULL,
    alive_until timestamptz NOT NULL,
    beat        bigint NOT NULL DEFAULT 0,
    dead        boolean NOT NULL DEFAULT false,
    ended_at    timestamptz             -- when it left or was declared dead
);

-- Singleton chores: one holder at a time, by compare-and-set.
CREATE TABLE gnomon.chore (
    name       text PRIMARY KEY,
    holder     uuid,
    held_until timestamptz NOT NULL DEFAULT '-infinity'
);

-- All tries of a task: those that did not succeed, the one that did, the one under way.
CREATE VIEW gnomon.try AS
    SELECT tenant_id, task_id, fence, attempt, outcome, worker, started_at, finished_at, error,
           response_status, response_body, NULL::json AS result
    FROM gnomon.execution
    UNION ALL
    SELECT tenant_id, id, fence, attempt, 0::smallint, worker, started_at, finished_at, NULL,
           response_status, response_body, result
    FROM gnomon.task_archive
    WHERE state = 10
    UNION ALL
    SELECT t.tenant_id, t.id, t.fence, t.attempt, NULL, n.name, t.started_at, NULL, NULL,
           NULL, NULL, NULL
    FROM gnomon.task t LEFT JOIN gnomon.node n ON n.incarnation = t.node
    WHERE t.state = 1;
