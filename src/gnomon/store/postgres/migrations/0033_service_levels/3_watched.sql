-- Tasks with a service level, each with the time at which it is looked at next. Apart from the task, so
-- that a claim and a settlement neither change an index nor have another one to choose. A row is
-- removed when its task has ended and is judged.
CREATE TABLE gnomon.watched_task (
    tenant_id    text COLLATE "C" NOT NULL,
    task_id      uuid NOT NULL,
    start_by     timestamptz,           -- the first execution; null: judged, or nothing to judge
    start_judged boolean NOT NULL DEFAULT false,
    slow         boolean NOT NULL DEFAULT false,  -- one of its executions was
    told_fence   bigint NOT NULL DEFAULT -1,      -- of the latest execution that was told to be slow
    look_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, task_id)
) WITH (
    -- Rows live as long as tasks: vacuum by the count of dead ones, at once.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 1
);
CREATE INDEX watched_task_look ON gnomon.watched_task (look_at);
SELECT gnomon.wall('gnomon.watched_task', 'SELECT, INSERT, UPDATE');

-- How many tasks kept their levels, by the week (of UTC, from Monday on). A run of a cron job counts
-- for its job and type.
CREATE TABLE gnomon.service_level (
    tenant_id    text COLLATE "C" NOT NULL,
    week         date NOT NULL,
    task_type    text COLLATE "C" NOT NULL,  -- '': of further types, beyond the number that is kept
    cron_job_id  uuid NOT NULL,              -- all zeros: of no job
    start_kept   bigint NOT NULL DEFAULT 0,
    start_missed bigint NOT NULL DEFAULT 0,
    run_kept     bigint NOT NULL DEFAULT 0,
    run_missed   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, week, task_type, cron_job_id)
) WITH (fillfactor = 50);
CREATE INDEX service_level_week ON gnomon.service_level (week);
SELECT gnomon.wall('gnomon.service_level', 'SELECT');

-- Tasks that are stuck: told when it began, and not yet that it is over.
CREATE TABLE gnomon.stuck_task (
    tenant_id text COLLATE "C" NOT NULL,
    task_id   uuid NOT NULL,
    reason    text NOT NULL,            -- gnomon.model.stuck.StuckReason
    since     timestamptz NOT NULL,     -- when it should have moved on
    found_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, task_id)
);
SELECT gnomon.wall('gnomon.stuck_task', 'SELECT');

-- When a task is looked at first: at its deadline, or when an execution could have run for too long.
-- Runs of cron jobs are judged by the ledger of their job, as far as their start goes.
CREATE FUNCTION gnomon.watched(t gnomon.task) RETURNS TABLE (start_by timestamptz, look_at timestamptz)
    LANGUAGE sql STABLE
    AS $$
    SELECT s.start_by, least(s.start_by, t.due_at + make_interval(secs => t.warn_after_seconds))
    FROM (
        SELECT CASE WHEN t.attempt = 0 AND t.cron_job_id IS NULL
            THEN t.due_at + make_interval(secs => t.sla_seconds) END AS start_by
    ) AS s
$$;

-- Watch these tasks of a tenant by their times and levels, which have changed.
CREATE FUNCTION gnomon.watch_tasks(p_tenant text, p_ids uuid[]) RETURNS void
    LANGUAGE sql
    AS $$
    INSERT INTO gnomon.watched_task AS w (tenant_id, task_id, start_by, look_at)
    SELECT t.tenant_id, t.id, l.start_by, l.look_at
    FROM gnomon.task AS t
    CROSS JOIN LATERAL gnomon.watched(t) AS l
    WHERE t.tenant_id = p_tenant AND t.id = ANY (p_ids) AND l.look_at IS NOT NULL
    ON CONFLICT (tenant_id, task_id) DO UPDATE
    SET start_by = CASE WHEN NOT w.start_judged THEN excluded.start_by END,
        look_at = excluded.look_at
$$;

CREATE FUNCTION gnomon.watch_new_task() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO gnomon.watched_task (tenant_id, task_id, start_by, look_at)
    SELECT NEW.tenant_id, NEW.id, l.start_by, l.look_at
    FROM gnomon.watched(NEW) AS l
    WHERE l.look_at IS NOT NULL
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
