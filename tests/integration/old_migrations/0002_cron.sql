-- Cron jobs, the ledger of their fires, and events.

-- A run of a job that forbids overlap is gated until its job lets it start.
ALTER TABLE gnomon.task
    ADD COLUMN gated boolean NOT NULL DEFAULT false,
    ADD COLUMN fire_at timestamptz;     -- of a cron job's run: its entry in the ledger

-- For withdrawing what has not started, and for letting the next queued run start.
CREATE INDEX task_unstarted ON gnomon.task (cron_job_id)
    WHERE cron_job_id IS NOT NULL AND attempt = 0;
CREATE INDEX task_queued ON gnomon.task (cron_job_id)
    WHERE cron_job_id IS NOT NULL AND state = 3;

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

-- The ledger: one entry for each fire, whatever became of it. What makes a fire unique.
CREATE TABLE gnomon.occurrence (
    cron_job_id   uuid NOT NULL,
    fire_at       timestamptz NOT NULL,
    tenant_id     text COLLATE "C" NOT NULL,
    kind          smallint NOT NULL DEFAULT 0,  -- 0 scheduled, 1 manual, 2 backfill
    task_id       uuid,                         -- null: it was missed
    skipped       smallint,                     -- 0 missed, 1 overlap, 2 superseded
    missed        integer NOT NULL DEFAULT 0,   -- fires that this entry stands for
    sla_at        timestamptz,                  -- by when it must have started; null: nobody asks
    sla_missed_at timestamptz,
    PRIMARY KEY (cron_job_id, fire_at)
) PARTITION BY RANGE (fire_at);
CREATE INDEX occurrence_sla ON gnomon.occurrence (sla_at) WHERE sla_at IS NOT NULL;
CREATE TABLE gnomon.occurrence_old PARTITION OF gnomon.occurrence
    FOR VALUES FROM (MINVALUE) TO ('1970-01-01T00:00:00Z');

-- What somebody may want to be told of. Append-only, kept as long as history.
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
