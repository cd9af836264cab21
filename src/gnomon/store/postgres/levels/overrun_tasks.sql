-- Running tasks that others could have taken over since $1 seconds, at most $2.
SELECT tenant_id, id
FROM gnomon.task
WHERE state = 1 AND run_until < (SELECT gnomon.now()) - make_interval(secs => $1::float8)
LIMIT $2::integer
