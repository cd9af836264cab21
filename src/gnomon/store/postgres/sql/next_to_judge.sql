-- The fire that is judged next. $1 seconds that a start may take to be committed, $2 jobs to leave out.
SELECT o.tenant_id, o.cron_job_id
FROM gnomon.occurrence AS o
WHERE o.sla_at <= gnomon.now() - make_interval(secs => $1::float8)
  AND o.cron_job_id <> ALL ($2::uuid[])
ORDER BY o.sla_at
LIMIT 1
