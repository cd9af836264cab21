-- The whole schema, as of version 18. It replaces the migrations 1 to 18, and a database that has
-- taken those is adopted as it is: see 0018_baseline.replaces.txt. Columns stand in the order in
-- which those migrations added them, so that both kinds of database are the same.
--
--   1  clock and role            5  quotas, usage, storage    9  row-level security
--   2  tasks and executions      6  limits                   10  first rows
--   3  cron jobs                 7  nodes and their work     11  triggers
--   4  tenants, keys, secrets    8  functions and views

CREATE SCHEMA IF NOT EXISTS gnomon;


-- 1. Clock and role

-- The only clock that decides what is due and who is alive. Statements call it once, as
-- `(SELECT gnomon.now())`. Tests replace it with one that they can turn.
CREATE FUNCTION gnomon.now() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    AS 'SELECT clock_timestamp()';

-- The API works for a tenant as this role, which owns nothing and sees the rows of one tenant.
-- Roles belong to the whole cluster: another database may have created this one, or be about to.
DO $$
DECLARE
    -- Whoever inherits from the role is behind its wall as well, and the nodes must not be.
    membership constant text := format(
        'GRANT gnomon_tenant TO %I', current_user
    ) || CASE WHEN current_setting('server_version_num')::integer >= 160000
        THEN ' WITH INHERIT FALSE, SET TRUE' ELSE '' END;
    using_it constant text := CASE WHEN current_setting('server_version_num')::integer >= 160000
        THEN 'SET' ELSE 'MEMBER' END;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'gnomon_tenant') THEN
        BEGIN
            CREATE ROLE gnomon_tenant NOLOGIN;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;  -- made meanwhile
        END;
    END IF;
    IF NOT pg_has_role(current_user, 'gnomon_tenant', using_it) THEN
        BEGIN
            EXECUTE membership;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END IF;
EXCEPTION
    WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'the user "%" may not create the role gnomon_tenant, or not take it on', current_user
            USING ERRCODE = 'insufficient_privilege',
                HINT = format(
                    'Let an administrator run: CREATE ROLE gnomon_tenant NOLOGIN; %s;', membership
                );
END
$$;


-- 2. Tasks and executions

-- Live tasks and dead letters. state: 0 waiting, 1 running, 2 paused, 3 blocked, 4 dead
-- (gnomon.model.lifecycle.State). keep_payload: 0 always, 1 failed, 2 never.
-- flow: tasks of a flow have the same tenant, type, queue, limit keys and host, so what keeps one of
-- them from starting (a limit, a broken host) keeps all.
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
    started_at       timestamptz,       -- of the last execution; while running: of the claim
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
    gated            boolean NOT NULL DEFAULT false,  -- until its cron job lets it start
    fire_at          timestamptz,       -- of a cron job's run: its entry in the ledger
    -- While running: whether the target may have been called. Kept only for tasks that ask before
    -- they start (not at_least_once, or lost before); nobody knows it of the others.
    begun            boolean NOT NULL DEFAULT false,
    preemptible      boolean NOT NULL DEFAULT false,
    queue            text,
    limit_keys       text,              -- values of keyed limiters: a JSON object, names sorted
    flow             bigint NOT NULL GENERATED ALWAYS AS (
        hashtextextended(
            task_type || E'\x1f' || coalesce(queue, '') || E'\x1f' || coalesce(limit_keys, '')
                || E'\x1f' || coalesce(split_part(target ->> 'url', '/', 3), ''),
            0
        )
    ) STORED,
    keep_payload     smallint NOT NULL DEFAULT 0,
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
    autovacuum_analyze_threshold = 5000,
    -- See gnomon.keep_pages. (Truncating would lock the table against everybody, too.)
    vacuum_truncate = false
);
CREATE INDEX task_due ON gnomon.task (shard, due_at, id) WHERE state = 0;
-- For reading the first due tasks of each flow when there are more than fit into memory.
CREATE INDEX task_flow ON gnomon.task (tenant_id, lane, flow, due_at, id) WHERE state = 0;
-- For the sweeper. No hot statement mentions the state together with the node, or the planner
-- would prefer this index and walk its dead entries.
CREATE INDEX task_running ON gnomon.task (node) WHERE state = 1;
CREATE INDEX task_dead ON gnomon.task (tenant_id, id) WHERE state = 4;
-- For withdrawing runs of a cron job that have not started, and for starting the next queued one.
CREATE INDEX task_unstarted ON gnomon.task (cron_job_id)
    WHERE cron_job_id IS NOT NULL AND attempt = 0;
CREATE INDEX task_queued ON gnomon.task (cron_job_id)
    WHERE cron_job_id IS NOT NULL AND state = 3;

-- Finished tasks. state: 10 completed, 11 cancelled, 12 expired, 13 resolved dead letter.
-- Partitioned by id, which is creation order: a lookup touches one partition, and the cursor of a
-- list does not move when a row does.
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
    preemptible      boolean NOT NULL DEFAULT false,
    queue            text,
    keep_payload     smallint NOT NULL DEFAULT 0,
    payload_removed  boolean NOT NULL DEFAULT false,  -- it had one
    PRIMARY KEY (tenant_id, id)
) PARTITION BY RANGE (id);

-- Payloads too large to be moved with their task: written once.
CREATE TABLE gnomon.task_payload (
    tenant_id text COLLATE "C" NOT NULL,
    task_id   uuid NOT NULL,
    payload   json NOT NULL,
    PRIMARY KEY (tenant_id, task_id)
) PARTITION BY RANGE (task_id);

-- Executions that did not succeed. The one that did is on the archive row.
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

-- For rows whose own partition was dropped while their task was still live.
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
) WITH (vacuum_truncate = false);  -- see gnomon.keep_pages
CREATE INDEX idempotency_expiry ON gnomon.idempotency (expires_at);


-- 3. Cron jobs

CREATE TABLE gnomon.cron_job (
    tenant_id      text COLLATE "C" NOT NULL,
    id             uuid NOT NULL,
    shard          smallint NOT NULL GENERATED ALWAYS AS (get_byte(uuid_send(id), 15)) STORED,
    name           text COLLATE "C" NOT NULL,
    source         text,
    version        bigint NOT NULL DEFAULT 1,
    next_fire_at   timestamptz,         -- null: paused, or nothing fires any more
    runs           bigint NOT NULL DEFAULT 0,
    active_task_id uuid,                -- may have ended: see gnomon.cron.overlap
    paused_at      timestamptz,
    pause_reason   text,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    created_by     text,
    tags           jsonb,
    definition     json NOT NULL,       -- gnomon.cron.job.Definition
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, name)
) WITH (
    -- Every fire moves its job on: vacuum by the count of dead rows.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 1
);
CREATE INDEX cron_job_due ON gnomon.cron_job (shard, next_fire_at) WHERE next_fire_at IS NOT NULL;

-- The ledger: one entry for each fire, whatever became of it. Its key makes a fire unique.
CREATE TABLE gnomon.occurrence (
    cron_job_id   uuid NOT NULL,
    fire_at       timestamptz NOT NULL,
    tenant_id     text COLLATE "C" NOT NULL,
    kind          smallint NOT NULL DEFAULT 0,  -- 0 scheduled, 1 manual, 2 backfill
    task_id       uuid,                         -- null: it was missed
    skipped       smallint,                     -- 0 missed, 1 overlap, 2 superseded
    missed        integer NOT NULL DEFAULT 0,   -- fires that this entry stands for
    sla_at        timestamptz,                  -- by when it must have started; null: no deadline
    sla_missed_at timestamptz,
    PRIMARY KEY (cron_job_id, fire_at)
) PARTITION BY RANGE (fire_at);
CREATE INDEX occurrence_sla ON gnomon.occurrence (sla_at) WHERE sla_at IS NOT NULL;
CREATE TABLE gnomon.occurrence_old PARTITION OF gnomon.occurrence
    FOR VALUES FROM (MINVALUE) TO ('1970-01-01T00:00:00Z');

-- Events that somebody may want to be told of. Append-only, kept as long as history.
CREATE TABLE gnomon.event (
    tenant_id   text COLLATE "C" NOT NULL,
    id          uuid NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    at          timestamptz NOT NULL,
    cron_job_id uuid,
    task_id     uuid,
    detail      json NOT NULL,
    PRIMARY KEY (tenant_id, id)
);


-- 4. Tenants, keys, secrets

-- The state of the installation, in one row that every process reads twice a second.
CREATE TABLE gnomon.revision (
    one            boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- Grows with every change of what processes cache about tenants.
    number         bigint NOT NULL DEFAULT 0,
    -- Whether requests need a key or a token. Nodes decide by it which addresses they may call, so it
    -- must not depend on how each process was started.
    authentication boolean NOT NULL DEFAULT false,
    -- Until when new work is refused because the database has too little room, and why. Whoever
    -- measures renews it: a process that dies must not leave the refusal behind.
    full_until     timestamptz,
    full_why       text
);

-- Which tenants have changed, and when: a process reads again what is theirs, not everything. The
-- column has another name than tenant_id because tenants never read this table.
CREATE TABLE gnomon.revised (
    tenant text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL  -- of gnomon.revision at that time
);
CREATE INDEX revised_number ON gnomon.revised (number);

-- A tenant without a row here has no quotas and the weight 1: only what is made by plain SQL.
-- functions: Python functions by name (`billing.*`: by how it begins); hosts: `*.example.com` for
-- those below, `api.example.com:8443` on a port. Null: all; empty: none.
CREATE TABLE gnomon.tenant (
    id            text COLLATE "C" PRIMARY KEY
                  CONSTRAINT id_is_a_name CHECK (id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    plan          text NOT NULL DEFAULT 'standard',
    weight        real NOT NULL DEFAULT 1 CHECK (weight > 0),
    quotas        json NOT NULL DEFAULT '{}',  -- what differs from the plan; null lifts a quota
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    targets_allow text[] NOT NULL DEFAULT '{}',  -- private networks that webhooks may reach (CIDR)
    functions     text[],
    hosts         text[]
);

-- The key itself is shown once and stored nowhere: it has so many random bits that its SHA-256 is
-- as good as any slower hash. functions, hosts: as those of the tenant.
CREATE TABLE gnomon.api_key (
    id           uuid PRIMARY KEY,
    tenant_id    text COLLATE "C" NOT NULL REFERENCES gnomon.tenant (id) ON DELETE CASCADE,
    name         text COLLATE "C" NOT NULL,
    hash         bytea NOT NULL UNIQUE,
    hint         text NOT NULL,         -- its first characters, for recognising it
    roles        text[] NOT NULL,
    task_types   text[],                -- that it may submit; null: all
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by   text,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz,           -- within a minute
    functions    text[],
    hosts        text[],
    made_by      uuid                   -- the key that it was made with; it may be gone
);
CREATE INDEX api_key_tenant ON gnomon.api_key (tenant_id, id);
CREATE INDEX api_key_made_by ON gnomon.api_key (tenant_id, made_by) WHERE made_by IS NOT NULL;

-- Secrets that the calls of a tenant are signed with, so that no other tenant's call passes for one
-- of them. No CHECK here: its error would show the whole row, to a log.
CREATE TABLE gnomon.webhook_secret (
    id           uuid PRIMARY KEY,
    tenant_id    text COLLATE "C" NOT NULL REFERENCES gnomon.tenant (id) ON DELETE CASCADE,
    host         text COLLATE "C",      -- whose calls it signs; null: of all hosts without their own
    scheme       text NOT NULL,         -- as in the header webhook-signature: v1, v1a
    secret       text NOT NULL,         -- whsec_... or whsk_...; empty once it is revoked
    public_key   text,                  -- whpk_... of v1a
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by   text,
    shared_until timestamptz,           -- of a host's: until then the tenant's sign beside it
    expires_at   timestamptz,
    revoked_at   timestamptz
);
CREATE INDEX webhook_secret_tenant ON gnomon.webhook_secret (tenant_id);

-- Task types that have a JSON Schema, which their payloads must satisfy.
CREATE TABLE gnomon.task_type (
    tenant_id  text COLLATE "C" NOT NULL REFERENCES gnomon.tenant (id) ON DELETE CASCADE,
    name       text COLLATE "C" NOT NULL,
    schema     json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, name)
);


-- 5. Quotas, usage, storage

-- room: in all rows of a tenant together, at least so many tasks may still be stored before its quota
-- scheduled_tasks is reached. Storing takes of it under a row's lock; tasks that end give nothing back
-- before the next count, so it is never too much. A tenant has eight rows, so that those who store its
-- tasks at the same time seldom wait for each other's commit. Tenants without quotas have none.
CREATE TABLE gnomon.tenant_room (
    tenant_id        text COLLATE "C" NOT NULL,
    slot             smallint NOT NULL,
    room             bigint NOT NULL DEFAULT 0,
    quota            bigint,            -- that the room was counted for
    counted_at       timestamptz NOT NULL DEFAULT '-infinity',
    count_again_at   timestamptz NOT NULL DEFAULT '-infinity',  -- not sooner, if it is too little
    distrusted_until timestamptz NOT NULL,  -- a process may not know yet that there is a quota
    PRIMARY KEY (tenant_id, slot)
) WITH (fillfactor = 30);  -- changed with every submission: on its own page, without the index

-- When tasks were stored within the last second, and how many at each moment.
CREATE TABLE gnomon.tenant_pace (
    tenant_id text COLLATE "C" PRIMARY KEY,
    moments   timestamptz[] NOT NULL DEFAULT '{}',
    numbers   integer[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 30);

-- Usage of each tenant by the day (UTC), written by the statements that do the work, so that it is
-- as true as they are. Each session writes to rows of its own, so that none ever waits for another: a
-- handler's transaction may stay open for seconds. The pruner gathers the rows of ended sessions in
-- the row of session 0. Readers take the sum of all.
CREATE TABLE gnomon.usage (
    tenant_id       text COLLATE "C" NOT NULL,
    day             date NOT NULL,
    session         integer NOT NULL,   -- its process id
    submissions     bigint NOT NULL DEFAULT 0,
    executions      bigint NOT NULL DEFAULT 0,
    compute_seconds float8 NOT NULL DEFAULT 0,
    stored_bytes    bigint NOT NULL DEFAULT 0,  -- payloads, results, responses written that day
    held_bytes      bigint NOT NULL DEFAULT 0,  -- added to tenant_storage, not gathered yet
    freed_bytes     bigint NOT NULL DEFAULT 0,  -- taken off it: a count needs to know
    PRIMARY KEY (tenant_id, day, session)
) WITH (
    -- The same few rows again and again: room for their next versions on the same page.
    fillfactor = 20,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000
);
-- The rows that are not gathered yet are few, of the days of a tenant that are kept.
CREATE INDEX usage_sessions ON gnomon.usage (tenant_id) WHERE session <> 0;

-- Bytes of each tenant, gathered from usage and corrected by every count. Tasks that end, are deleted
-- or are past retention give nothing back before the next count, so that nobody gains by it.
CREATE TABLE gnomon.tenant_storage (
    tenant_id     text COLLATE "C" PRIMARY KEY,
    bytes         bigint NOT NULL DEFAULT 0,
    freed_bytes   bigint NOT NULL DEFAULT 0,  -- of all that was gathered
    counted_at    timestamptz,          -- null: never
    count_seconds float8 NOT NULL DEFAULT 0  -- that the last count took
) WITH (fillfactor = 50);


-- 6. Limits

-- Limiters: how many tasks of a tenant may run at once, or start within a time.
CREATE TABLE gnomon.limiter (
    tenant_id   text COLLATE "C" NOT NULL REFERENCES gnomon.tenant (id) ON DELETE CASCADE,
    name        text COLLATE "C" NOT NULL,
    task_type   text,
    queue       text,
    key         text,                   -- a JSON pointer into the payload
    concurrency integer CHECK (concurrency >= 0),
    rate        integer CHECK (rate >= 0),
    per_seconds float8 NOT NULL DEFAULT 1 CHECK (per_seconds > 0),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, name),
    CONSTRAINT limits_something CHECK (concurrency IS NOT NULL OR rate IS NOT NULL)
);

-- Tasks that are limited together. Whoever counts what is given of a bucket locks its row first.
CREATE TABLE gnomon.limit_bucket (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id text COLLATE "C" NOT NULL,
    limiter   text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,  -- '' where the limiter has no key
    UNIQUE (tenant_id, limiter, key)
);

-- Permits that nodes hold: each lets one task of the bucket run. All of a bucket together are never
-- more than the limiter's concurrency, and a node runs no more than it holds.
CREATE TABLE gnomon.limit_lease (
    bucket        bigint NOT NULL REFERENCES gnomon.limit_bucket (id) ON DELETE CASCADE,
    node          uuid NOT NULL,        -- an incarnation
    turn          bigint NOT NULL,      -- of the call that wrote this; what is older comes too late
    permits       integer NOT NULL CHECK (permits >= 0),
    seen_at       timestamptz NOT NULL, -- when the node last asked
    held_since    timestamptz,          -- since when it has held any
    permits_since timestamptz,          -- since when it waits for permits, where it does
    starts_since  timestamptz,          -- and for starts
    PRIMARY KEY (bucket, node)
) WITH (fillfactor = 50);
-- For a node that holds permits to see who waits.
CREATE INDEX limit_lease_waiting ON gnomon.limit_lease (bucket)
    WHERE permits_since IS NOT NULL OR starts_since IS NOT NULL;

-- Starts that were granted: usable until `until`, so they count for the time of the limiter longer.
CREATE TABLE gnomon.limit_window (
    bucket bigint NOT NULL REFERENCES gnomon.limit_bucket (id) ON DELETE CASCADE,
    until  timestamptz NOT NULL,
    starts integer NOT NULL,
    PRIMARY KEY (bucket, until)
) WITH (fillfactor = 50);


-- 7. Nodes and their work

-- One row for each incarnation of each node. `beat` grows with every renewal: a peer that saw it stand
-- still for a whole lease, while its own renewals succeeded, may declare the node dead.
CREATE TABLE gnomon.node (
    incarnation uuid PRIMARY KEY,
    name        text NOT NULL,
    version     text NOT NULL,
    slots       integer NOT NULL,
    started_at  timestamptz NOT NULL,
    alive_until timestamptz NOT NULL,
    beat        bigint NOT NULL DEFAULT 0,
    dead        boolean NOT NULL DEFAULT false,
    ended_at    timestamptz,            -- when it left or was declared dead
    serves      jsonb                   -- its pool (gnomon.model.pool.Pool); null: everything
);

-- Singleton chores: one holder at a time, by compare-and-set.
CREATE TABLE gnomon.chore (
    name       text PRIMARY KEY,
    holder     uuid,
    held_until timestamptz NOT NULL DEFAULT '-infinity'
);

-- Breakers that are open, by node, to explain why a task waits. Nodes do not read it.
CREATE TABLE gnomon.breaker (
    tenant_id text COLLATE "C" NOT NULL,
    host      text,                     -- null: all that the tenant runs
    node      uuid NOT NULL REFERENCES gnomon.node (incarnation) ON DELETE CASCADE,
    until     timestamptz NOT NULL,     -- when the next task is tried
    UNIQUE NULLS NOT DISTINCT (tenant_id, host, node)
);
CREATE INDEX breaker_node ON gnomon.breaker (node);

-- Errors in the background work of nodes and of the API that persist, to explain what is wrong. Each
-- process keeps a bounded number of rows, and renews those that still hold.
CREATE TABLE gnomon.trouble (
    process     text NOT NULL,          -- a node's incarnation, or an API process
    chore       text NOT NULL,
    tenant_id   text COLLATE "C" NOT NULL,  -- empty: it is not one tenant's
    subject     text NOT NULL,          -- what of the tenant's; empty: all, or the chore itself
    name        text NOT NULL,          -- of the process, for people
    sqlstate    text,
    error       text NOT NULL,
    remedy      text NOT NULL,
    since       timestamptz NOT NULL,
    last        timestamptz NOT NULL,
    count       bigint NOT NULL,
    retry_at    timestamptz NOT NULL,
    known_until timestamptz NOT NULL,   -- later, the process has ended without a word
    PRIMARY KEY (process, chore, tenant_id, subject)
);


-- 8. Functions and views

-- All executions of a task: those that failed, the one that succeeded, the one that is running. The
-- state is hidden from the planner, as in claim.sql: this is read by key. A view shows what its owner
-- may see, unless it is told otherwise (security_invoker).
CREATE VIEW gnomon.try WITH (security_invoker = true) AS
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
    WHERE t.state + 0 = 1;

-- Every hot statement has one possible plan, whatever PostgreSQL believes of its tables. Three things
-- make it so: conditions that no partial index answers to (see claim.sql), tables that are never small,
-- and, for what is read in an order, functions that can plan nothing else.

-- Of a table of a few pages every plan is cheap, and the one that is chosen is kept while the table
-- grows: reading all of it for every claim, until it is next analyzed. So the tables that are read by
-- key have a first megabyte that is never given back, empty or not. This gives them so many pages at
-- the least. The rows that fill them are rolled back at once, so nobody ever sees them. Called again
-- at every start: a restored table is as small as its rows.
CREATE FUNCTION gnomon.keep_pages(pages integer DEFAULT 128) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    filling constant text := repeat('x', 1800);  -- four rows fill a page, and are not compressed
    size constant integer := current_setting('block_size');
    lacking integer;
BEGIN
    lacking := pages - pg_relation_size('gnomon.task') / size;
    IF lacking > 0 THEN
        BEGIN
            INSERT INTO gnomon.task (tenant_id, id, state, task_type, target, last_error)
            SELECT '', overlay(overlay(gen_random_uuid()::text PLACING '7' FROM 15)
                PLACING '00000000-0000' FROM 1)::uuid, 2, '', '{}', filling
            FROM generate_series(1, 4 * lacking);
            RAISE SQLSTATE 'GN003';
        EXCEPTION
            WHEN SQLSTATE 'GN003' THEN NULL;
        END;
    END IF;
    lacking := pages - pg_relation_size('gnomon.idempotency') / size;
    IF lacking > 0 THEN
        BEGIN
            INSERT INTO gnomon.idempotency (tenant_id, key, fingerprint, answer, expires_at)
            SELECT '', n::text, '', to_json(filling), '-infinity'
            FROM generate_series(1, 4 * lacking) AS n;
            RAISE SQLSTATE 'GN003';
        EXCEPTION
            WHEN SQLSTATE 'GN003' THEN NULL;
        END;
    END IF;
END
$$;

-- A table that is read in an order, as far as a limit, has an index in that order. Where most of its
-- entries are dead, the planner would rather read more and sort it: in the functions below it can
-- neither sort nor read otherwise. (Such settings end with the function, so they are safe behind a
-- pooler.)

-- Whether any of some pools serves a task.
CREATE FUNCTION gnomon.in_a_pool(
    pools jsonb, tenant_id text, lane smallint, task_type text, queue text
) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
SELECT EXISTS (
    SELECT
    FROM jsonb_array_elements(in_a_pool.pools) AS p (pool)
    WHERE coalesce(p.pool -> 'tenants' ? in_a_pool.tenant_id, true)
      AND coalesce(p.pool -> 'lanes' @> to_jsonb(in_a_pool.lane), true)
      AND coalesce(p.pool -> 'types' ? in_a_pool.task_type, true)
      -- A task without a queue is in no list of queues.
      AND coalesce(p.pool -> 'queues' ? coalesce(in_a_pool.queue, ''), true)
)
$$;

-- Read ahead: the next waiting tasks of each shard after its cursor, due before the horizon, at most so
-- many of each. pooled: whether the node has a pool or others have one; then what it serves: tenants,
-- lanes, types and queues, null for all; others: the pools of others that go first in each shard.
CREATE FUNCTION gnomon.read_ahead(
    p_shards smallint[],
    p_after_due timestamptz[],
    p_after_ids uuid[],
    p_horizon timestamptz,
    p_most integer,
    p_pooled boolean,
    p_tenants text[],
    p_lanes smallint[],
    p_types text[],
    p_queues text[],
    p_others jsonb[]
) RETURNS TABLE (
    tenant_id text, id uuid, due_at timestamptz, lane smallint, losses smallint, recurring boolean,
    flow bigint
)
LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
RETURN QUERY
SELECT t.tenant_id, t.id, t.due_at, t.lane, t.losses, t.recurring, t.flow
FROM unnest(p_shards, p_after_due, p_after_ids, p_others)
    AS s (shard, after_due, after_id, others)
CROSS JOIN LATERAL (
    SELECT task.tenant_id, task.id, task.due_at, task.lane, task.losses,
        task.cron_job_id IS NOT NULL AS recurring, task.flow
    FROM gnomon.task
    WHERE task.state = 0
      AND task.shard = s.shard
      AND (task.due_at, task.id) > (s.after_due, s.after_id)
      AND task.due_at <= p_horizon
      -- A node without a pool looks no further. The coalesce keeps the planner from
      -- other indexes, and from guessing how much of a shard is in a pool.
      AND coalesce(NOT p_pooled OR (
        (p_tenants IS NULL OR task.tenant_id = ANY (p_tenants))
        AND (p_lanes IS NULL OR task.lane = ANY (p_lanes))
        AND (p_types IS NULL OR task.task_type = ANY (p_types))
        AND (p_queues IS NULL OR task.queue = ANY (p_queues))
        AND (s.others IS NULL OR NOT gnomon.in_a_pool(
            s.others, task.tenant_id, task.lane, task.task_type, task.queue
        ))
      ), false)
    ORDER BY task.due_at, task.id
    LIMIT p_most
) AS t;
END
$$;

-- Read again behind the cursors: what is due from `since`, of each shard, to `until`. The rest is as in
-- read_ahead.
CREATE FUNCTION gnomon.read_behind(
    p_shards smallint[],
    p_after_due timestamptz[],
    p_after_ids uuid[],
    p_since timestamptz[],
    p_until timestamptz,
    p_most integer,
    p_pooled boolean,
    p_tenants text[],
    p_lanes smallint[],
    p_types text[],
    p_queues text[],
    p_others jsonb[]
) RETURNS TABLE (
    tenant_id text, id uuid, due_at timestamptz, lane smallint, losses smallint, recurring boolean,
    flow bigint
)
LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
RETURN QUERY
SELECT t.tenant_id, t.id, t.due_at, t.lane, t.losses, t.recurring, t.flow
FROM unnest(p_shards, p_after_due, p_after_ids, p_since, p_others)
    AS s (shard, after_due, after_id, since, others)
CROSS JOIN LATERAL (
    SELECT task.tenant_id, task.id, task.due_at, task.lane, task.losses,
        task.cron_job_id IS NOT NULL AS recurring, task.flow
    FROM gnomon.task
    WHERE task.state = 0
      AND task.shard = s.shard
      AND task.due_at >= s.since
      AND task.due_at <= p_until
      AND (task.due_at, task.id) <= (s.after_due, s.after_id)
      -- A node without a pool looks no further. The coalesce keeps the planner from
      -- other indexes, and from guessing how much of a shard is in a pool.
      AND coalesce(NOT p_pooled OR (
        (p_tenants IS NULL OR task.tenant_id = ANY (p_tenants))
        AND (p_lanes IS NULL OR task.lane = ANY (p_lanes))
        AND (p_types IS NULL OR task.task_type = ANY (p_types))
        AND (p_queues IS NULL OR task.queue = ANY (p_queues))
        AND (s.others IS NULL OR NOT gnomon.in_a_pool(
            s.others, task.tenant_id, task.lane, task.task_type, task.queue
        ))
      ), false)
    ORDER BY task.due_at, task.id
    LIMIT p_most
) AS t;
END
$$;

-- Overdue tasks in the shards of others, the latest of each first: their owner begins at the other
-- end, where it leaves its dead index entries behind, too. At most `each` a shard and `most` in all.
CREATE FUNCTION gnomon.read_overdue(
    p_shards smallint[],
    p_seconds float8,
    p_each integer,
    p_most integer,
    p_losses integer,
    p_pooled boolean,
    p_tenants text[],
    p_lanes smallint[],
    p_types text[],
    p_queues text[]
) RETURNS TABLE (
    tenant_id text, id uuid, due_at timestamptz, lane smallint, losses smallint, recurring boolean,
    flow bigint
)
LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
RETURN QUERY
SELECT t.tenant_id, t.id, t.due_at, t.lane, t.losses, t.recurring, t.flow
FROM unnest(p_shards) AS s (shard)
CROSS JOIN LATERAL (
    SELECT task.tenant_id, task.id, task.due_at, task.lane, task.losses,
        task.cron_job_id IS NOT NULL AS recurring, task.flow
    FROM gnomon.task
    WHERE task.state = 0
      AND task.shard = s.shard
      AND task.due_at <= (SELECT gnomon.now() - make_interval(secs => p_seconds))
      AND task.losses <= p_losses
      -- A node without a pool looks no further. The coalesce keeps the planner from
      -- other indexes, and from guessing how much of a shard is in a pool.
      AND coalesce(NOT p_pooled OR (
        (p_tenants IS NULL OR task.tenant_id = ANY (p_tenants))
        AND (p_lanes IS NULL OR task.lane = ANY (p_lanes))
        AND (p_types IS NULL OR task.task_type = ANY (p_types))
        AND (p_queues IS NULL OR task.queue = ANY (p_queues))
      ), false)
    ORDER BY task.due_at DESC, task.id DESC
    LIMIT p_each
) AS t
LIMIT p_most;
END
$$;

-- The flows that have waiting tasks, in order, after a given one, at most so many: the first task of
-- each, and what it is if that is asked for. Of flows that are known (in the same order) only what is
-- due from `since` on is looked at, and what lies between them is found by one probe for each: so the
-- dead index entries at the head of a flow are not walked again and again.
CREATE FUNCTION gnomon.read_flows(
    p_tenant text,
    p_lane smallint,
    p_flow bigint,
    p_most integer,
    p_typed boolean,
    p_tenants text[],
    p_lanes smallint[],
    p_flows bigint[],
    p_since timestamptz[]
) RETURNS TABLE (
    tenant_id text, lane smallint, flow bigint, due_at timestamptz, task_type text, queue text
)
LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
AS $$
#variable_conflict use_column
DECLARE
    v_known constant integer := cardinality(p_tenants);
    v_next integer := 1;  -- the first of the known ones that was not looked at
    v_found record;
    v_count integer := 0;
BEGIN
    WHILE v_count < p_most LOOP
        IF v_next <= v_known THEN
            SELECT t.tenant_id, t.lane, t.flow, t.due_at, t.id INTO v_found
            FROM gnomon.task AS t
            WHERE t.state = 0
              AND (t.tenant_id, t.lane, t.flow) > (p_tenant, p_lane, p_flow)
              AND (t.tenant_id, t.lane, t.flow)
                < (p_tenants[v_next], p_lanes[v_next], p_flows[v_next])
            ORDER BY t.tenant_id, t.lane, t.flow, t.due_at, t.id
            LIMIT 1;
            IF NOT FOUND THEN
                p_tenant := p_tenants[v_next];
                p_lane := p_lanes[v_next];
                p_flow := p_flows[v_next];
                SELECT t.tenant_id, t.lane, t.flow, t.due_at, t.id INTO v_found
                FROM gnomon.task AS t
                WHERE t.state = 0 AND t.tenant_id = p_tenant AND t.lane = p_lane AND t.flow = p_flow
                  AND t.due_at >= p_since[v_next]
                ORDER BY t.due_at, t.id
                LIMIT 1;
                v_next := v_next + 1;
                CONTINUE WHEN NOT FOUND;
            END IF;
        ELSE
            SELECT t.tenant_id, t.lane, t.flow, t.due_at, t.id INTO v_found
            FROM gnomon.task AS t
            WHERE t.state = 0 AND (t.tenant_id, t.lane, t.flow) > (p_tenant, p_lane, p_flow)
            ORDER BY t.tenant_id, t.lane, t.flow, t.due_at, t.id
            LIMIT 1;
            EXIT WHEN NOT FOUND;
        END IF;
        p_tenant := v_found.tenant_id;
        p_lane := v_found.lane;
        p_flow := v_found.flow;
        v_count := v_count + 1;
        tenant_id := p_tenant;
        lane := p_lane;
        flow := p_flow;
        due_at := v_found.due_at;
        IF p_typed THEN
            SELECT t.task_type, t.queue INTO task_type, queue
            FROM gnomon.task AS t WHERE t.tenant_id = p_tenant AND t.id = v_found.id;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;

-- The next due tasks of each flow in these shards, after the place up to which it was read.
CREATE FUNCTION gnomon.read_heads(
    p_tenants text[],
    p_lanes smallint[],
    p_flows bigint[],
    p_after_due timestamptz[],
    p_after_ids uuid[],
    p_most integer[],
    p_shards smallint[]
) RETURNS TABLE (
    tenant_id text, id uuid, due_at timestamptz, lane smallint, losses smallint, recurring boolean,
    flow bigint
)
LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
RETURN QUERY
SELECT t.tenant_id, t.id, t.due_at, t.lane, t.losses, t.recurring, t.flow
FROM unnest(
    p_tenants, p_lanes, p_flows, p_after_due, p_after_ids, p_most
) AS f (tenant_id, lane, flow, after_due, after_id, most)
CROSS JOIN LATERAL (
    SELECT task.tenant_id, task.id, task.due_at, task.lane, task.losses,
        task.cron_job_id IS NOT NULL AS recurring, task.flow
    FROM gnomon.task
    WHERE task.state = 0
      AND task.tenant_id = f.tenant_id
      AND task.lane = f.lane
      AND task.flow = f.flow
      AND (task.due_at, task.id) > (f.after_due, f.after_id)
      AND task.due_at <= (SELECT gnomon.now())
      AND task.shard = ANY (p_shards)
    ORDER BY task.due_at, task.id
    LIMIT f.most
) AS t;
END
$$;

-- The cron jobs of each shard that fire by then, soonest first, at most so many a shard.
CREATE FUNCTION gnomon.read_due_jobs(
    p_shards smallint[],
    p_until timestamptz,
    p_most integer
) RETURNS SETOF gnomon.cron_job
LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
RETURN QUERY
SELECT j.*
FROM unnest(p_shards) AS s (shard)
CROSS JOIN LATERAL (
    SELECT *
    FROM gnomon.cron_job
    WHERE cron_job.shard = s.shard AND cron_job.next_fire_at <= p_until
    ORDER BY cron_job.next_fire_at
    LIMIT p_most
) AS j;
END
$$;

-- Whether a task that ends in this state loses its payload. A completed or cancelled task has not
-- failed; dead letters have not ended.
CREATE FUNCTION gnomon.removes_payload(keep smallint, state integer) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS 'SELECT keep = 2 OR (keep = 1 AND state IN (10, 11))';

-- Remove payloads that are stored apart, by one probe each; returns the bytes that each of them took,
-- which is what a tenant has fewer: payloads are stored compressed.
CREATE FUNCTION gnomon.drop_payloads(tenants text[], ids uuid[])
    RETURNS TABLE (tenant_id text, bytes bigint)
    LANGUAGE plpgsql ROWS 10 SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    FOR i IN 1 .. cardinality(ids) LOOP
        DELETE FROM gnomon.task_payload AS p WHERE p.tenant_id = tenants[i] AND p.task_id = ids[i]
        RETURNING p.tenant_id, pg_column_size(p.payload) INTO tenant_id, bytes;
        IF FOUND THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;

-- Complete a running task within the caller's transaction, so that its own writes and the end of
-- the task are committed together, or neither is. The fence and the node are those that the
-- handler was called with. Raises GN001 where another node has taken the task over: the caller must
-- roll back. It writes what settle.sql writes for a completed task.
-- From here to the commit the row is locked, and whoever settles other tasks beside this one waits.
-- So PostgreSQL ends a session that completes and does not commit within 5 s: stopped, hung, cut off
-- or busy. (Before version 17 it can do so only for one that is idle, or busy with one statement.)
CREATE FUNCTION gnomon.complete_run(
    tenant_id text, task_id uuid, fence bigint, node uuid, result json DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_removed boolean;
BEGIN
    PERFORM set_config('idle_in_transaction_session_timeout', '5s', true);
    IF current_setting('transaction_timeout', true) IS NULL THEN
        PERFORM set_config('statement_timeout', '5s', true);
    ELSE
        PERFORM set_config('transaction_timeout', '5s', true);
    END IF;
    WITH moment AS MATERIALIZED (
        SELECT gnomon.now() AS now
    ), gone AS (
        DELETE FROM gnomon.task AS t
        WHERE t.tenant_id = complete_run.tenant_id AND t.id = complete_run.task_id
          AND t.fence = complete_run.fence AND t.node = complete_run.node
        RETURNING t.*
    ), metered AS (
        INSERT INTO gnomon.usage AS u (
            tenant_id, day, session, executions, compute_seconds, stored_bytes, held_bytes,
            freed_bytes
        )
        SELECT
            g.tenant_id, (m.now AT TIME ZONE 'UTC')::date, pg_backend_pid(), 1,
            coalesce(extract(epoch FROM greatest(m.now - g.started_at, '0')), 0),
            coalesce(octet_length(complete_run.result::text), 0),
            coalesce(octet_length(complete_run.result::text), 0) - f.freed, f.freed
        FROM gone AS g
        CROSS JOIN moment AS m
        CROSS JOIN LATERAL (
            SELECT CASE WHEN gnomon.removes_payload(g.keep_payload, 10)
                THEN coalesce(pg_column_size(g.payload), 0) ELSE 0 END AS freed
        ) AS f
        ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE
        SET executions = u.executions + excluded.executions,
            compute_seconds = u.compute_seconds + excluded.compute_seconds,
            stored_bytes = u.stored_bytes + excluded.stored_bytes,
            held_bytes = u.held_bytes + excluded.held_bytes,
            freed_bytes = u.freed_bytes + excluded.freed_bytes
    ), archived AS (
        INSERT INTO gnomon.task_archive (
            tenant_id, id, lane, state, delivery, execute_at, expires_at, started_at, finished_at,
            fence, attempt, timeout_seconds, payload_size, task_type, name, target, payload,
            retry_policy, tags, idempotency_key, created_by, last_error, worker, result, cron_job_id,
            retry_of, preemptible, queue, keep_payload, payload_removed
        )
        SELECT
            g.tenant_id, g.id, g.lane, 10, g.delivery, g.execute_at, g.expires_at, g.started_at,
            m.now, g.fence, g.attempt, g.timeout_seconds,
            CASE WHEN NOT r.removed THEN g.payload_size END, g.task_type, g.name, g.target,
            CASE WHEN NOT r.removed THEN g.payload END, g.retry_policy, g.tags,
            g.idempotency_key, g.created_by, g.last_error,
            n.name, complete_run.result, g.cron_job_id, g.retry_of, g.preemptible, g.queue,
            g.keep_payload, r.removed AND (g.payload_size IS NOT NULL OR g.payload IS NOT NULL)
        FROM gone AS g
        CROSS JOIN moment AS m
        CROSS JOIN LATERAL (SELECT gnomon.removes_payload(g.keep_payload, 10) AS removed) AS r
        LEFT JOIN gnomon.node AS n ON n.incarnation = g.node
    )
    SELECT g.payload_size IS NOT NULL AND gnomon.removes_payload(g.keep_payload, 10)
    INTO v_removed FROM gone AS g;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'task % is no longer run by the one who would complete it', task_id
            USING ERRCODE = 'GN001', HINT = 'Roll back: it has been given to another node.';
    END IF;
    IF v_removed THEN
        INSERT INTO gnomon.usage AS u (tenant_id, day, session, held_bytes, freed_bytes)
        SELECT
            d.tenant_id, (gnomon.now() AT TIME ZONE 'UTC')::date, pg_backend_pid(), -d.bytes, d.bytes
        FROM gnomon.drop_payloads(ARRAY[complete_run.tenant_id], ARRAY[task_id]) AS d
        ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE
        SET held_bytes = u.held_bytes + excluded.held_bytes,
            freed_bytes = u.freed_bytes + excluded.freed_bytes;
    END IF;
END
$$;

-- Count a change of a tenant's rows. The one row of gnomon.revision is locked until the end of the
-- transaction: numbers become visible in their order. The argument names the column of the tenant.
-- SECURITY DEFINER: whoever may change a tenant's rows need not be able to change the number.
CREATE FUNCTION gnomon.revise() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
    AS $$
DECLARE
    present bigint;
BEGIN
    UPDATE gnomon.revision SET number = number + 1 RETURNING number INTO present;
    EXECUTE format(
        'INSERT INTO gnomon.revised (tenant, number)
         SELECT DISTINCT %I, $1 FROM changed
         ON CONFLICT (tenant) DO UPDATE SET number = excluded.number', TG_ARGV[0]
    ) USING present;
    RETURN NULL;
END
$$;

-- A v1 secret of 366 random bits, hashed to 256. Made here, it is in no statement, and in no log of
-- statements.
CREATE FUNCTION gnomon.new_webhook_secret() RETURNS text
    LANGUAGE sql VOLATILE
    AS $$
SELECT 'whsec_' || encode(
    sha256(
        uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
    ),
    'base64'
)
$$;

-- A tenant has a secret from its first moment, however it was made: no node need make one, and no
-- two nodes can make two.
CREATE FUNCTION gnomon.make_webhook_secret() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO gnomon.webhook_secret (id, tenant_id, scheme, secret, created_at)
    VALUES (gen_random_uuid(), NEW.id, 'v1', gnomon.new_webhook_secret(), gnomon.now());
    RETURN NULL;
END
$$;

-- The quotas of a tenant may have changed: processes that do not know it yet store without asking.
CREATE FUNCTION gnomon.distrust_room() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM gnomon.tenant_room AS r
    WHERE r.tenant_id = coalesce(NEW.id, OLD.id) ORDER BY r.slot FOR UPDATE;
    IF TG_OP = 'DELETE' THEN
        DELETE FROM gnomon.tenant_room AS r WHERE r.tenant_id = OLD.id;
        DELETE FROM gnomon.tenant_pace AS p WHERE p.tenant_id = OLD.id;
    ELSE
        UPDATE gnomon.tenant_room AS r
        SET distrusted_until = gnomon.now() + interval '2 seconds'
        WHERE r.tenant_id = NEW.id;
    END IF;
    RETURN NULL;
END
$$;

-- The tasks of a tenant that have not ended, without runs of cron jobs and dead letters. It walks the
-- tenant's own tasks, whatever the statistics say of the table.
CREATE FUNCTION gnomon.scheduled_tasks(tenant text) RETURNS bigint
    LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    RETURN (
        SELECT count(*) FROM gnomon.task AS t
        WHERE t.tenant_id = tenant AND t.state < 4 AND t.cron_job_id IS NULL
    );
END
$$;

-- Whether a tenant's room is known for its quota. Even then it is counted once a minute: plain SQL,
-- and processes with other plans, store without asking.
CREATE FUNCTION gnomon.is_known(held gnomon.tenant_room, asked bigint, moment timestamptz)
    RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT held.quota IS NOT DISTINCT FROM asked AND held.counted_at >= held.distrusted_until
        AND held.counted_at BETWEEN moment - interval '1 minute' AND moment + interval '1 minute'
$$;

-- Take room for `wanted` tasks, or for fewer where there is less, unless it must be for the `whole`.
-- Returns for how many, and the room before where it had to be looked at as a whole.
CREATE FUNCTION gnomon.take_room(
    tenant text, asked bigint, wanted integer, whole boolean, OUT passed integer, OUT room bigint
) LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := gnomon.now();
    began timestamptz;
    known boolean;
    again_at timestamptz;
    share bigint;
    rows integer;
BEGIN
    BEGIN
        UPDATE gnomon.tenant_room AS r SET room = r.room - wanted
        WHERE r.tenant_id = tenant AND r.slot = pg_backend_pid() % 8 AND r.room >= wanted
          AND gnomon.is_known(r, asked, moment);
        IF FOUND THEN
            passed := wanted;
            RETURN;
        END IF;
        -- The row may be locked although it was not changed; who waits for all must hold none.
        RAISE SQLSTATE 'GN002';
    EXCEPTION
        WHEN SQLSTATE 'GN002' THEN NULL;
    END;
    SELECT sum(r.room), bool_and(gnomon.is_known(r, asked, moment)), min(r.count_again_at)
    INTO room, known, again_at FROM gnomon.tenant_room AS r WHERE r.tenant_id = tenant;
    IF known AND moment < again_at AND room < (CASE WHEN whole THEN wanted ELSE 1 END) THEN
        passed := 0;  -- they were counted a moment ago
        RETURN;
    END IF;
    LOOP
        PERFORM FROM gnomon.tenant_room AS r WHERE r.tenant_id = tenant ORDER BY r.slot FOR UPDATE;
        GET DIAGNOSTICS rows = ROW_COUNT;
        EXIT WHEN rows = 8;
        INSERT INTO gnomon.tenant_room (tenant_id, slot, distrusted_until)
        SELECT tenant, slot, gnomon.now() + interval '2 seconds'
        FROM generate_series(0, 7) AS slot ORDER BY slot
        ON CONFLICT DO NOTHING;
    END LOOP;
    moment := gnomon.now();
    SELECT sum(r.room), bool_and(gnomon.is_known(r, asked, moment)), min(r.count_again_at)
    INTO room, known, again_at FROM gnomon.tenant_room AS r WHERE r.tenant_id = tenant;
    IF NOT known OR (room < wanted AND moment >= again_at) THEN
        -- A tenant at its quota is not counted for every refusal: no sooner than after 100 ms, and
        -- ten times as long as this takes.
        began := clock_timestamp();
        room := asked - gnomon.scheduled_tasks(tenant);
        again_at := moment
            + greatest(interval '100 milliseconds', 10 * (clock_timestamp() - began));
        known := false;
    END IF;
    passed := greatest(0, least(wanted, room));
    IF whole AND passed < wanted THEN
        passed := 0;
    END IF;
    share := floor((room - passed) / 8.0);
    UPDATE gnomon.tenant_room AS r
    SET room = CASE WHEN r.slot = 0 THEN take_room.room - passed - 7 * share ELSE share END,
        quota = asked,
        counted_at = CASE WHEN known THEN r.counted_at ELSE moment END,
        count_again_at = again_at
    WHERE r.tenant_id = tenant AND (passed > 0 OR NOT known);
END
$$;

-- How many tasks a tenant may store now so that no second has more than `rate` of them. Creates and
-- locks its row.
CREATE FUNCTION gnomon.hold_pace(tenant text, rate integer, moment OUT timestamptz, pace OUT integer)
    LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        PERFORM FROM gnomon.tenant_pace AS p WHERE p.tenant_id = tenant FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO gnomon.tenant_pace (tenant_id) VALUES (tenant) ON CONFLICT DO NOTHING;
    END LOOP;
    moment := gnomon.now();
    SELECT greatest(0, rate - coalesce(sum(e.number), 0)) INTO pace
    FROM gnomon.tenant_pace AS p CROSS JOIN LATERAL unnest(p.moments, p.numbers) AS e (at, number)
    WHERE p.tenant_id = tenant
      AND e.at > moment - interval '1 second' AND e.at < moment + interval '1 second';
END
$$;

-- Remember that tasks were stored. Moments within 10 ms are one entry, which counts until its last is
-- a second old.
CREATE FUNCTION gnomon.keep_pace(tenant text, moment timestamptz, number integer) RETURNS void
    LANGUAGE sql AS $$
    UPDATE gnomon.tenant_pace AS p
    SET (moments, numbers) = (
        SELECT array_agg(s.at ORDER BY s.at), array_agg(s.number ORDER BY s.at)
        FROM (
            SELECT max(e.at) AS at, sum(e.number)::integer AS number
            FROM (
                SELECT * FROM unnest(p.moments, p.numbers)
                UNION ALL
                SELECT moment, number
            ) AS e (at, number)
            WHERE e.at > moment - interval '1 second' AND e.at < moment + interval '1 second'
            GROUP BY date_bin('10 milliseconds', e.at, 'epoch')
        ) AS s
    )
    WHERE p.tenant_id = tenant
$$;

-- Admit what the quotas of the tenants leave room for, in the transaction that stores it. The
-- tenants are in order, so that two batches cannot deadlock. For each of them: how many tasks it
-- would store, its quota of scheduled tasks, and of submissions a second (null: none). `whole`: all
-- of them, or none. `patience`: milliseconds to wait for others who store for the same tenant. Returns
-- how many may be stored, the room before where they are not all, and what the second had left.
CREATE FUNCTION gnomon.admit(
    tenants text[], wanted integer[], quotas bigint[], rates integer[], whole boolean,
    patience integer
) RETURNS TABLE (tenant_id text, passed integer, room bigint, pace integer)
    LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    moment timestamptz;
BEGIN
    IF cardinality(tenants) = 0 THEN
        RETURN;
    END IF;
    -- Who holds a tenant's rows and falls silent must not hold up the tenant for long.
    PERFORM set_config('idle_in_transaction_session_timeout', '5s', true),
        set_config('lock_timeout', patience::text, true);
    FOR i IN 1 .. cardinality(tenants) LOOP
        tenant_id := tenants[i];
        passed := wanted[i];
        room := NULL;
        pace := NULL;
        IF rates[i] IS NOT NULL THEN
            SELECT * INTO moment, pace FROM gnomon.hold_pace(tenants[i], rates[i]);
            passed := CASE WHEN whole AND pace < passed THEN 0 ELSE least(passed, pace) END;
        END IF;
        IF quotas[i] IS NOT NULL AND passed > 0 THEN
            SELECT * INTO passed, room
            FROM gnomon.take_room(tenants[i], quotas[i], passed, whole);
        END IF;
        IF rates[i] IS NOT NULL AND passed > 0 THEN
            PERFORM gnomon.keep_pace(tenants[i], moment, passed);
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;

-- The bytes of a tenant: never less than there are, but for what is being written just now.
CREATE FUNCTION gnomon.stored_bytes(tenant text) RETURNS bigint
    LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    RETURN greatest(0,
        coalesce((SELECT s.bytes FROM gnomon.tenant_storage AS s WHERE s.tenant_id = tenant), 0)
        + coalesce((
            SELECT sum(u.held_bytes) FROM gnomon.usage AS u
            WHERE u.tenant_id = tenant AND u.session <> 0
        ), 0)
    );
END
$$;

-- How many of each tenant's tasks fit into its quota of bytes (null: it has none), in their order.
-- `sizes`: of all tasks, those of the first tenant first. `whole`: all of a tenant's, or none. Returns
-- for each tenant, by its place, how many, and the bytes it has already.
CREATE FUNCTION gnomon.fit_stored(
    tenants text[], wanted integer[], quotas bigint[], sizes bigint[], whole boolean
) RETURNS TABLE (place integer, fit integer, stored bigint)
    LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    v_first integer := 1;
    v_own bigint[];
BEGIN
    FOR i IN 1 .. cardinality(tenants) LOOP
        place := i;
        fit := wanted[i];
        stored := NULL;
        IF quotas[i] IS NOT NULL THEN
            v_own := sizes[v_first : v_first + wanted[i] - 1];
            stored := gnomon.stored_bytes(tenants[i]);
            IF stored + (SELECT sum(size) FROM unnest(v_own) AS size) > quotas[i] THEN
                SELECT CASE WHEN whole THEN 0 ELSE count(*) END INTO fit
                FROM (
                    SELECT sum(s.size) OVER (ORDER BY s.n) AS upto
                    FROM unnest(v_own) WITH ORDINALITY AS s (size, n)
                ) AS r
                WHERE r.upto <= quotas[i] - stored;
            END IF;
        END IF;
        v_first := v_first + wanted[i];
        RETURN NEXT;
    END LOOP;
END
$$;

-- Remove the leases of dead nodes under a bucket that the caller has locked. A lease counts for as
-- long as a task may be running under it. Every claim locks the row of its node (FOR KEY SHARE) and
-- makes sure that it is alive: so while we hold that row no claim is under way, and later ones will
-- see that the node is dead. Where it is held, somebody comes back.
CREATE FUNCTION gnomon.drop_dead_leases(p_bucket bigint) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_node uuid;
BEGIN
    FOR v_node IN
        SELECT l.node FROM gnomon.limit_lease AS l
        WHERE l.bucket = p_bucket
          AND NOT EXISTS (SELECT FROM gnomon.node AS n WHERE n.incarnation = l.node AND NOT n.dead)
    LOOP
        PERFORM FROM gnomon.node AS n WHERE n.incarnation = v_node FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND AND EXISTS (SELECT FROM gnomon.node WHERE incarnation = v_node);
        DELETE FROM gnomon.limit_lease AS l
        WHERE l.bucket = p_bucket AND l.node = v_node
          AND NOT EXISTS (SELECT FROM gnomon.task AS t WHERE t.state = 1 AND t.node = v_node);
    END LOOP;
END
$$;

-- One node's permits and starts of many buckets, in the order of their names: what it keeps and wants
-- against what it may have. Runs in READ COMMITTED, where each statement of a function sees all that
-- was committed before it: so what is read after the lock of a bucket is the truth about it.
--
-- Permits: when others wait, each node may have an equal share; what is over goes to whoever asks.
-- Where there are more nodes than permits, each holds one for a second at a time, the longest
-- waiting first. A lease shrinks only to what its node keeps, because the answer may be lost: a node
-- that is allowed less than it holds uses no more, and returns the rest with its next call.
-- Starts: granted as far as those of the last `per_seconds` leave room, in equal shares as well, also
-- a little ahead: then they are good from when the ones before them leave the window. Each counts as
-- if it were made as late as it can be, until the node says when it was made, or that it will not be.
CREATE FUNCTION gnomon.exchange_permits(
    p_node uuid,
    p_turn bigint,                      -- grows with every call of a node
    p_tenants text[], p_limiters text[], p_keys text[],
    p_rates integer[],                  -- of what is no row of gnomon.limiter: starts a minute
    p_kept integer[],                   -- permits that are in use, or may be before the answer
    p_wanted integer[],                 -- permits, those included
    p_starts integer[],                 -- more starts wanted,
    p_seconds float8[],                 -- good for so long at the least
    p_told_places integer[],            -- of starts that were granted before, place by place:
    p_told_until timestamptz[],         -- of those that are good until then
    p_told_starts integer[],            -- so many
    p_told_at timestamptz[]             -- were made by then; NULL: will not be made
) RETURNS TABLE (
    place integer, now timestamptz, permits integer, allowed integer,
    contended boolean,                  -- others wait
    again float8,                       -- seconds until there may be more starts, where some lack
    starts integer[], since timestamptz[], until timestamptz[]  -- so many, good from when to when
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    v_bucket bigint;
    v_now timestamptz;
    v_limit integer;
    v_rate integer;
    v_per float8;
    v_own gnomon.limit_lease;
    v_others record;
    v_share integer;
    v_bound bigint;
    v_grain float8;
    v_slice float8;
    v_window interval;
    v_told integer := 1;
    v_free bigint;
    v_ahead interval;
    v_want bigint;
    v_row record;
    v_until timestamptz;
BEGIN
    FOR i IN 1 .. cardinality(p_tenants) LOOP
        LOOP
            SELECT b.id INTO v_bucket FROM gnomon.limit_bucket AS b
            WHERE b.tenant_id = p_tenants[i] AND b.limiter = p_limiters[i] AND b.key = p_keys[i]
            FOR UPDATE;
            EXIT WHEN FOUND;
            INSERT INTO gnomon.limit_bucket (tenant_id, limiter, key)
            VALUES (p_tenants[i], p_limiters[i], p_keys[i])
            ON CONFLICT DO NOTHING;
        END LOOP;
        v_now := gnomon.now();
        SELECT m.concurrency, m.rate, m.per_seconds INTO v_limit, v_rate, v_per
        FROM gnomon.limiter AS m
        WHERE m.tenant_id = p_tenants[i] AND m.name = p_limiters[i];
        IF p_rates[i] IS NOT NULL THEN
            v_rate := p_rates[i];
            v_per := 60;
        END IF;
        SELECT l.* INTO v_own FROM gnomon.limit_lease AS l
        WHERE l.bucket = v_bucket AND l.node = p_node;
        CONTINUE WHEN v_own.turn >= p_turn;
        IF EXISTS (
            SELECT FROM gnomon.limit_lease AS l WHERE l.bucket = v_bucket AND l.node <> p_node
        ) THEN
            PERFORM gnomon.drop_dead_leases(v_bucket);
        END IF;

        -- One that waits and does not come for its turn is waited for no longer.
        SELECT
            coalesce(sum(l.permits), 0) AS held,
            count(*) FILTER (WHERE l.permits > 0 OR w.permits) AS nodes,
            coalesce(bool_or(w.permits), false) AS wait,
            count(*) FILTER (WHERE w.permits AND l.permits = 0) AS empty_handed,
            count(*) FILTER (WHERE w.permits AND l.permits = 0
                AND l.permits_since < coalesce(v_own.permits_since, v_now)) AS earlier,
            count(*) FILTER (WHERE w.starts) AS want_starts,
            count(*) FILTER (WHERE w.starts
                AND l.starts_since < coalesce(v_own.starts_since, v_now)) AS earlier_starts
        INTO v_others
        FROM gnomon.limit_lease AS l
        CROSS JOIN LATERAL (
            SELECT l.permits_since IS NOT NULL AND l.seen_at > v_now - interval '2 s' AS permits,
                l.starts_since IS NOT NULL AND l.seen_at > v_now - interval '2 s' AS starts
        ) AS w
        WHERE l.bucket = v_bucket AND l.node <> p_node;

        -- Permits.
        IF v_limit IS NULL THEN
            v_bound := p_wanted[i];
        ELSIF v_limit > v_others.nodes THEN
            v_share := v_limit / (v_others.nodes + 1);
            SELECT v_limit - coalesce(sum(greatest(l.permits, CASE
                WHEN l.permits_since IS NOT NULL AND l.seen_at > v_now - interval '2 s'
                THEN v_share ELSE 0 END)), 0)
            INTO v_bound
            FROM gnomon.limit_lease AS l
            WHERE l.bucket = v_bucket AND l.node <> p_node;
        ELSIF v_own.permits > 0 THEN
            v_bound := least(1, v_limit - v_others.held);
            IF v_others.empty_handed > 0 AND v_own.held_since < v_now - interval '1 s' THEN
                v_bound := 0;
                v_own.permits_since := v_now;  -- the turn is over: back to the end of the queue
            END IF;
        ELSE
            v_bound := least(1, v_limit - v_others.held - v_others.earlier);
        END IF;
        place := i;
        allowed := greatest(0, least(p_wanted[i], v_bound));
        permits := greatest(allowed, least(coalesce(v_own.permits, 0), p_kept[i]));

        -- Starts. Those that will not be made are as if they had not been granted.
        starts := '{}';
        since := '{}';
        until := '{}';
        again := 0;
        v_want := 0;
        IF v_rate IS NOT NULL THEN
            v_window := make_interval(secs => v_per);
            v_slice := greatest(v_per / 20, least(v_per, 1), p_seconds[i]);
            v_grain := v_per / 128;  -- rounded up to that, so that there are not too many rows
            WHILE p_told_places[v_told] < i LOOP
                v_told := v_told + 1;
            END LOOP;
            WHILE p_told_places[v_told] = i LOOP
                UPDATE gnomon.limit_window AS w SET starts = w.starts - p_told_starts[v_told]
                WHERE w.bucket = v_bucket AND w.until = p_told_until[v_told]
                  AND w.starts >= p_told_starts[v_told];
                IF FOUND AND p_told_at[v_told] IS NOT NULL THEN
                    INSERT INTO gnomon.limit_window AS w (bucket, until, starts)
                    VALUES (
                        v_bucket,
                        least(p_told_until[v_told], to_timestamp(
                            ceil(extract(epoch FROM p_told_at[v_told])::float8 / v_grain) * v_grain
                        )),
                        p_told_starts[v_told]
                    )
                    ON CONFLICT (bucket, until) DO UPDATE SET starts = w.starts + excluded.starts;
                END IF;
                v_told := v_told + 1;
            END LOOP;
            DELETE FROM gnomon.limit_window AS w
            WHERE w.bucket = v_bucket AND (w.until <= v_now - v_window OR w.starts = 0);
            v_want := p_starts[i];
            again := least(1, greatest(least(v_per / 10, 0.125), v_per / 100));
            v_ahead := make_interval(secs => again * 2);
            SELECT v_rate - coalesce(sum(w.starts), 0) AS now, v_rate - coalesce(
                sum(w.starts) FILTER (WHERE w.until > v_now + v_ahead - v_window), 0) AS soon
            INTO v_row
            FROM gnomon.limit_window AS w WHERE w.bucket = v_bucket;
            v_free := v_row.now;
            v_bound := v_row.soon;
            IF v_others.want_starts > 0 THEN
                v_share := greatest(1, ceil(v_bound / (v_others.want_starts + 1.0)));
                v_bound := least(v_share, v_bound - v_others.earlier_starts * v_share);
            END IF;
            v_bound := greatest(0, least(v_want, v_bound));
            v_want := v_want - v_bound;
            FOR v_row IN
                SELECT v_now AS moment, 0 AS starts
                UNION ALL
                SELECT w.until + v_window, w.starts FROM gnomon.limit_window AS w
                WHERE w.bucket = v_bucket AND w.until <= v_now + v_ahead - v_window
                ORDER BY 1
            LOOP
                EXIT WHEN v_bound = 0;
                v_free := v_free + v_row.starts;
                CONTINUE WHEN v_free <= 0;
                starts := starts || least(v_free, v_bound)::integer;
                since := since || v_row.moment;
                v_until := to_timestamp((floor(
                    extract(epoch FROM v_row.moment)::float8 / v_slice * 4) + 5) * v_slice / 4);
                until := until || v_until;
                INSERT INTO gnomon.limit_window AS w (bucket, until, starts)
                VALUES (v_bucket, v_until, least(v_free, v_bound))
                ON CONFLICT (bucket, until) DO UPDATE SET starts = w.starts + excluded.starts;
                v_bound := v_bound - least(v_free, v_bound);
                v_free := 0;
            END LOOP;
            v_want := v_want + v_bound;
        END IF;

        INSERT INTO gnomon.limit_lease AS l (
            bucket, node, turn, permits, seen_at, held_since, permits_since, starts_since
        )
        VALUES (
            v_bucket, p_node, p_turn, permits, v_now,
            CASE WHEN permits > 0 THEN coalesce(v_own.held_since, v_now) END,
            CASE WHEN p_wanted[i] > allowed THEN coalesce(v_own.permits_since, v_now) END,
            CASE WHEN v_want > 0
                THEN CASE WHEN starts = '{}' THEN coalesce(v_own.starts_since, v_now) ELSE v_now END END
        )
        ON CONFLICT (bucket, node) DO UPDATE
        SET turn = excluded.turn, permits = excluded.permits, seen_at = excluded.seen_at,
            held_since = excluded.held_since, permits_since = excluded.permits_since,
            starts_since = excluded.starts_since;
        now := v_now;
        contended := v_others.wait OR v_others.want_starts > 0;
        RETURN NEXT;
    END LOOP;
END
$$;

-- Remove buckets that nobody has asked for in an hour, and that count nothing.
CREATE FUNCTION gnomon.forget_buckets(p_most integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_long_ago timestamptz := gnomon.now() - interval '1 hour';
    v_chosen bigint[];
    v_gone bigint;
BEGIN
    -- First the lock, then the truth: see gnomon.exchange_permits.
    SELECT array_agg(c.id) INTO v_chosen
    FROM (
        SELECT b.id FROM gnomon.limit_bucket AS b
        WHERE NOT EXISTS (
            SELECT FROM gnomon.limit_lease AS l WHERE l.bucket = b.id AND l.seen_at > v_long_ago
        )
        LIMIT p_most
        FOR UPDATE SKIP LOCKED
    ) AS c;
    PERFORM gnomon.drop_dead_leases(chosen) FROM unnest(v_chosen) AS chosen;
    DELETE FROM gnomon.limit_bucket AS b
    WHERE b.id = ANY (v_chosen)
      AND NOT EXISTS (
          SELECT FROM gnomon.limit_lease AS l
          WHERE l.bucket = b.id AND (l.permits > 0 OR l.seen_at > v_long_ago)
      )
      AND NOT EXISTS (
          SELECT FROM gnomon.limit_window AS w
          LEFT JOIN gnomon.limiter AS m ON m.tenant_id = b.tenant_id AND m.name = b.limiter
          WHERE w.bucket = b.id
            AND w.until > gnomon.now() - make_interval(secs => coalesce(m.per_seconds, 60))
      );
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    RETURN v_gone;
END
$$;


-- 9. Row-level security

-- Let the API see one tenant's rows of a table, and say what it may do with them. Everybody else, be
-- it a node or a user's own transaction, goes on as the table's privileges say.
CREATE FUNCTION gnomon.wall(walled regclass, privileges text, tenant_column name DEFAULT 'tenant_id')
    RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', walled);
    EXECUTE format('CREATE POLICY everybody ON %s USING (true)', walled);
    EXECUTE format(
        'CREATE POLICY tenant ON %s AS RESTRICTIVE TO gnomon_tenant'
        ' USING (%I = current_setting(''gnomon.tenant'', true))',
        walled, tenant_column
    );
    EXECUTE format('GRANT %s ON %s TO gnomon_tenant', privileges, walled);
END
$$;

GRANT USAGE ON SCHEMA gnomon TO gnomon_tenant;
SELECT gnomon.wall('gnomon.task', 'SELECT, INSERT, UPDATE, DELETE');
SELECT gnomon.wall('gnomon.task_archive', 'SELECT, INSERT, DELETE');
SELECT gnomon.wall('gnomon.task_payload', 'SELECT, INSERT, UPDATE, DELETE');
SELECT gnomon.wall('gnomon.execution', 'SELECT, DELETE');
SELECT gnomon.wall('gnomon.idempotency', 'SELECT, INSERT, UPDATE');
SELECT gnomon.wall('gnomon.cron_job', 'SELECT, INSERT, UPDATE, DELETE');
SELECT gnomon.wall('gnomon.occurrence', 'SELECT, INSERT, UPDATE, DELETE');
SELECT gnomon.wall('gnomon.event', 'SELECT');
SELECT gnomon.wall('gnomon.tenant', 'SELECT', 'id');
-- DELETE: keys that have ended are removed, but for the newest. A tenant must not be able to make any
-- number of rows by creating and revoking them.
SELECT gnomon.wall('gnomon.api_key', 'SELECT, INSERT, UPDATE, DELETE');
SELECT gnomon.wall('gnomon.webhook_secret', 'SELECT, INSERT, UPDATE, DELETE');
SELECT gnomon.wall('gnomon.task_type', 'SELECT, INSERT, UPDATE, DELETE');
SELECT gnomon.wall('gnomon.limiter', 'SELECT, INSERT, UPDATE, DELETE');
SELECT gnomon.wall('gnomon.limit_bucket', 'SELECT');
SELECT gnomon.wall('gnomon.tenant_room', 'SELECT, INSERT, UPDATE');
SELECT gnomon.wall('gnomon.tenant_pace', 'SELECT, INSERT, UPDATE');
SELECT gnomon.wall('gnomon.usage', 'SELECT, INSERT, UPDATE');
SELECT gnomon.wall('gnomon.tenant_storage', 'SELECT');
SELECT gnomon.wall('gnomon.breaker', 'SELECT');
SELECT gnomon.wall('gnomon.trouble', 'SELECT');

-- Starts that limiters have granted belong to the tenant of their bucket.
ALTER TABLE gnomon.limit_window ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON gnomon.limit_window USING (true);
CREATE POLICY tenant ON gnomon.limit_window AS RESTRICTIVE TO gnomon_tenant
    USING (EXISTS (SELECT FROM gnomon.limit_bucket AS b WHERE b.id = bucket));
GRANT SELECT ON gnomon.limit_window TO gnomon_tenant;

-- The owner of a task sees which node runs it, and nothing else of the node.
GRANT SELECT (incarnation, name, dead) ON gnomon.node TO gnomon_tenant;
GRANT SELECT ON gnomon.try TO gnomon_tenant;


-- 10. First rows. Before the triggers: the tenant `default` gets its webhook secret from the first
-- process that starts, which may know one from its settings.

INSERT INTO gnomon.revision DEFAULT VALUES;
INSERT INTO gnomon.tenant (id, plan) VALUES ('default', 'unlimited');
SELECT gnomon.keep_pages();


-- 11. Triggers

CREATE TRIGGER revise_inserted AFTER INSERT ON gnomon.tenant REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('id');
CREATE TRIGGER revise_updated AFTER UPDATE ON gnomon.tenant REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('id');
CREATE TRIGGER revise_deleted AFTER DELETE ON gnomon.tenant REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('id');
CREATE TRIGGER revise_inserted AFTER INSERT ON gnomon.task_type REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('tenant_id');
CREATE TRIGGER revise_updated AFTER UPDATE ON gnomon.task_type REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('tenant_id');
CREATE TRIGGER revise_deleted AFTER DELETE ON gnomon.task_type REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('tenant_id');
CREATE TRIGGER revise_inserted AFTER INSERT ON gnomon.limiter REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('tenant_id');
CREATE TRIGGER revise_updated AFTER UPDATE ON gnomon.limiter REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('tenant_id');
CREATE TRIGGER revise_deleted AFTER DELETE ON gnomon.limiter REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('tenant_id');
CREATE TRIGGER revise_inserted AFTER INSERT ON gnomon.webhook_secret REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('tenant_id');
CREATE TRIGGER revise_updated AFTER UPDATE ON gnomon.webhook_secret REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('tenant_id');
CREATE TRIGGER revise_deleted AFTER DELETE ON gnomon.webhook_secret REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('tenant_id');
CREATE TRIGGER make_webhook_secret AFTER INSERT ON gnomon.tenant
    FOR EACH ROW EXECUTE FUNCTION gnomon.make_webhook_secret();
CREATE TRIGGER distrust_room AFTER INSERT OR UPDATE OR DELETE ON gnomon.tenant
    FOR EACH ROW EXECUTE FUNCTION gnomon.distrust_room();
