-- Move jobs on, each only from the version and the fire time that its plan was made with. Where
-- nobody is active or queued, the first planned run becomes the active one right away, and need
-- not ask when its time comes. Whatever inserts a run locks the job and moves its version or its
-- fire time, so a run that this snapshot does not show makes the plan fail.
-- $1/$2 jobs, $3 versions, $4 fire times planned from, $5 next ones, $6 runs planned, $7 the first
-- run (null: the job allows overlap, or none is planned).
WITH locked AS MATERIALIZED (
    SELECT j.tenant_id, j.id, p.next_fire_at, p.planned, p.first_run
    FROM unnest(
        $1::text[], $2::uuid[], $3::bigint[], $4::timestamptz[], $5::timestamptz[], $6::integer[],
        $7::uuid[]
    ) AS p (tenant_id, id, version, planned_from, next_fire_at, planned, first_run)
    JOIN gnomon.cron_job AS j
        ON j.tenant_id = p.tenant_id AND j.id = p.id
        AND j.version = p.version AND j.next_fire_at = p.planned_from
    ORDER BY j.id
    FOR UPDATE OF j
)
UPDATE gnomon.cron_job AS j
SET next_fire_at = l.next_fire_at,
    runs = j.runs + l.planned,
    active_task_id = CASE
        WHEN l.first_run IS NULL
            OR EXISTS (
                SELECT FROM gnomon.task AS t
                WHERE t.tenant_id = j.tenant_id AND t.id = j.active_task_id AND t.state IN (0, 1, 2)
            )
            OR EXISTS (
                SELECT FROM gnomon.task AS t
                WHERE t.cron_job_id = j.id AND t.state = 3 AND t.tenant_id = j.tenant_id
            )
        THEN j.active_task_id
        ELSE l.first_run
    END
FROM locked AS l
WHERE j.tenant_id = l.tenant_id AND j.id = l.id
RETURNING j.tenant_id, j.id, coalesce(j.active_task_id = l.first_run, false) AS reserved
