-- Task types of which many executions fail and are retried, off the roll-up by the minute: of the last
-- $1 minutes, at least $2 retries (half of it while it goes on), and half of all executions that ended. At
-- most $4. $3 the kind.
SELECT a.tenant_id, a.task_type, sum(a.failed - a.dead)::bigint AS retries,
    sum(a.succeeded + a.failed)::bigint AS executions
FROM gnomon.activity AS a
WHERE a.span = 1 AND a.task_type <> ''
  AND a.starts_at >= gnomon.now() - make_interval(mins => $1::integer)
GROUP BY a.tenant_id, a.task_type
HAVING sum(a.failed - a.dead) >= CASE WHEN EXISTS (
        SELECT FROM gnomon.condition AS c
        WHERE c.kind = $3 AND c.tenant_id = a.tenant_id AND c.key = a.task_type
    ) THEN $2::bigint / 2 ELSE $2::bigint END
    AND sum(a.failed) * 2 >= sum(a.succeeded + a.failed)
ORDER BY retries DESC
LIMIT $4
