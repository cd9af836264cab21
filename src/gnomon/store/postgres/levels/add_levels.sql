-- Add to the weeks of jobs and types. A type that is new where a tenant has $9 rows in a week already is
-- added to '', and so is the job. $1 tenants, $2 weeks, $3 types, $4 jobs, then the counts.
WITH counted AS MATERIALIZED (
    SELECT r.tenant_id, r.week, r.task_type, r.cron_job_id, r.start_kept, r.start_missed,
        r.run_kept, r.run_missed,
        EXISTS (
            SELECT FROM gnomon.service_level AS s
            WHERE s.tenant_id = r.tenant_id AND s.week = r.week AND s.task_type = r.task_type
              AND s.cron_job_id = r.cron_job_id
        ) AS known
    FROM unnest(
        $1::text[], $2::date[], $3::text[], $4::uuid[], $5::bigint[], $6::bigint[], $7::bigint[],
        $8::bigint[]
    ) AS r (
        tenant_id, week, task_type, cron_job_id, start_kept, start_missed, run_kept, run_missed
    )
), room AS MATERIALIZED (
    SELECT w.tenant_id, w.week, $9::bigint - (
        SELECT count(*) FROM (
            SELECT FROM gnomon.service_level AS s
            WHERE s.tenant_id = w.tenant_id AND s.week = w.week
            LIMIT $9::bigint
        ) AS rows
    ) AS room
    FROM (SELECT DISTINCT tenant_id, week FROM counted WHERE NOT known) AS w
), placed AS MATERIALIZED (
    SELECT c.*, c.known OR row_number() OVER (
        PARTITION BY c.tenant_id, c.week, c.known ORDER BY c.task_type, c.cron_job_id
    ) <= coalesce(r.room, 0) AS apart
    FROM counted AS c
    LEFT JOIN room AS r ON r.tenant_id = c.tenant_id AND r.week = c.week
)
INSERT INTO gnomon.service_level AS s (
    tenant_id, week, task_type, cron_job_id, start_kept, start_missed, run_kept, run_missed
)
SELECT p.tenant_id, p.week, CASE WHEN p.apart THEN p.task_type ELSE '' END,
    CASE WHEN p.apart THEN p.cron_job_id ELSE '00000000-0000-0000-0000-000000000000' END,
    sum(p.start_kept), sum(p.start_missed), sum(p.run_kept), sum(p.run_missed)
FROM placed AS p
GROUP BY 1, 2, 3, 4
ORDER BY 1, 2, 3, 4  -- one order for all who add
ON CONFLICT (tenant_id, week, task_type, cron_job_id) DO UPDATE
SET start_kept = s.start_kept + excluded.start_kept,
    start_missed = s.start_missed + excluded.start_missed,
    run_kept = s.run_kept + excluded.run_kept,
    run_missed = s.run_missed + excluded.run_missed
