-- The fire that is judged next, by the conditions of judge_fires. $1 seconds that a start may take to
-- be committed, $2 seconds that a claimed run may wait for a slot, $3 jobs to leave out.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
)
SELECT o.tenant_id, o.cron_job_id
FROM gnomon.occurrence AS o
WHERE o.sla_at <= (SELECT now FROM moment) - make_interval(secs => $1::float8)
  AND o.cron_job_id <> ALL ($3::uuid[])
  AND NOT EXISTS (
    SELECT FROM gnomon.task AS t
    WHERE t.tenant_id = o.tenant_id AND t.id = o.task_id
      AND t.node IS NOT NULL AND t.attempt = 1 AND t.started_at <= o.sla_at
      AND t.started_at > (SELECT now FROM moment) - make_interval(secs => $2::float8)
    OFFSET 0  -- a probe for each, never a join
  )
ORDER BY o.sla_at
LIMIT 1
