-- Judge fires whose window has closed, each once, and enter an event for those that missed it.
-- A run that somebody cancelled within its window, or deleted, was not missed; a fire that was made
-- up for after its miss was told is not told again.
-- $1 ids for the events, $2 seconds that a start may take to be committed, $3 seconds that a claimed
-- run may wait for a slot: until then it may be released, and counts neither way; $4 the kind;
-- $5 jobs to leave out.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
), due AS MATERIALIZED (
    SELECT o.cron_job_id, o.fire_at, o.tenant_id, o.task_id, o.missed, o.sla_at, o.sla_missed_at
    FROM gnomon.occurrence AS o
    WHERE o.sla_at <= (SELECT now FROM moment) - make_interval(secs => $2::float8)
      AND o.cron_job_id <> ALL ($5::uuid[])
      AND NOT EXISTS (
        SELECT FROM gnomon.task AS t
        WHERE t.tenant_id = o.tenant_id AND t.id = o.task_id
          -- It runs. Not by its state: see task_running.
          AND t.node IS NOT NULL AND t.attempt = 1 AND t.started_at <= o.sla_at
          AND t.started_at > (SELECT now FROM moment) - make_interval(secs => $3::float8)
        OFFSET 0  -- a probe for each, never a join
      )
    ORDER BY o.sla_at
    LIMIT cardinality($1::uuid[])
    FOR UPDATE OF o SKIP LOCKED
), looked AS MATERIALIZED (
    -- The LIMITs keep it at one probe for each.
    SELECT
        d.*,
        least(e.started_at, t.started_at, a.started_at) AS started_at,
        coalesce(t.task_type, a.task_type) AS task_type,
        t.id IS NOT NULL OR (a.id IS NOT NULL AND NOT a.given_up) AS wanted
    FROM due AS d
    LEFT JOIN LATERAL (
        SELECT id, started_at, task_type
        FROM gnomon.task
        WHERE tenant_id = d.tenant_id AND id = d.task_id
        LIMIT 1
    ) AS t ON true
    LEFT JOIN LATERAL (
        SELECT id, started_at, task_type, state = 11 AND finished_at <= d.sla_at AS given_up
        FROM gnomon.task_archive
        WHERE tenant_id = d.tenant_id AND id = d.task_id
        LIMIT 1
    ) AS a ON true
    LEFT JOIN LATERAL (
        SELECT min(started_at) AS started_at
        FROM gnomon.execution
        WHERE tenant_id = d.tenant_id AND task_id = d.task_id
    ) AS e ON true
), judged AS MATERIALIZED (
    SELECT
        l.*,
        l.sla_missed_at IS NULL
            AND coalesce(l.started_at > l.sla_at, l.task_id IS NULL OR l.wanted) AS is_miss,
        l.sla_missed_at IS NULL AND coalesce(l.started_at <= l.sla_at, false) AS is_kept
    FROM looked AS l
), told AS MATERIALIZED (
    SELECT
        j.cron_job_id, j.fire_at, j.tenant_id, j.task_id, j.missed, j.sla_at, j.started_at,
        ($1::uuid[])[row_number() OVER (ORDER BY j.sla_at, j.cron_job_id)] AS event_id,
        c.name AS cron_job,
        (c.definition ->> 'sla_seconds')::float8 AS sla_seconds,
        c.definition ->> 'task_type' AS task_type
    FROM judged AS j
    LEFT JOIN LATERAL (
        -- PostgreSQL reads a whole JSON to find a number in it, and fails at characters that its
        -- text cannot hold; payload templates may have those, so they are put out of its way.
        SELECT name,
            regexp_replace(definition::text, '\\(\\|u[0-9a-fA-F]{4})', 'x', 'g')::json AS definition
        FROM gnomon.cron_job
        WHERE tenant_id = j.tenant_id AND id = j.cron_job_id
        LIMIT 1
    ) AS c ON true
    WHERE j.is_miss
), noted AS (
    UPDATE gnomon.occurrence AS o
    SET sla_at = NULL,
        sla_missed_at = CASE WHEN j.is_miss THEN (SELECT now FROM moment) ELSE o.sla_missed_at END
    FROM judged AS j
    WHERE o.cron_job_id = j.cron_job_id AND o.fire_at = j.fire_at
), entered AS (
    INSERT INTO gnomon.event (tenant_id, id, kind, at, cron_job_id, task_id, detail)
    SELECT
        w.tenant_id, w.event_id, $4::text, (SELECT now FROM moment), w.cron_job_id, w.task_id,
        json_build_object(
            'cron_job', w.cron_job,
            'fire_at', (to_json(w.fire_at AT TIME ZONE 'UTC') #>> '{}') || 'Z',
            'sla_at', (to_json(w.sla_at AT TIME ZONE 'UTC') #>> '{}') || 'Z',
            'sla_seconds', w.sla_seconds,
            'started_at', (to_json(w.started_at AT TIME ZONE 'UTC') #>> '{}') || 'Z',
            'missed', w.missed
        )
    FROM told AS w
)
SELECT
    j.tenant_id, j.cron_job_id, w.cron_job, j.task_id, j.fire_at, j.sla_at, j.started_at, j.missed,
    w.event_id, (SELECT now FROM moment) AS at, j.is_miss, j.is_kept,
    coalesce(j.task_type, w.task_type) AS task_type
FROM judged AS j
LEFT JOIN told AS w ON w.cron_job_id = j.cron_job_id AND w.fire_at = j.fire_at
