-- Task types of which many executions fail and are retried, off the roll-up by the minute: of the last
-- $1 minutes, at least $2 retries (half of it while it goes on), and half of all executions that ended. At
-- most $4, and $5 of a tenant: the one after the other of each, those that go on first, then the worst. $3
-- the kind.
SELECT r.tenant_id, r.task_type, r.retries, r.executions
FROM (
    SELECT s.*, c.goes_on, row_number() OVER (
        PARTITION BY s.tenant_id ORDER BY c.goes_on DESC, s.retries DESC, s.task_type
    ) AS rank
    FROM (
        SELECT a.tenant_id, a.task_type, sum(a.failed - a.dead)::bigint AS retries,
            sum(a.succeeded + a.failed)::bigint AS executions
        FROM gnomon.activity AS a
        WHERE a.span = 1 AND a.task_type <> ''
          AND a.starts_at >= gnomon.now() - make_interval(mins => $1::integer)
        GROUP BY a.tenant_id, a.task_type
        HAVING sum(a.failed - a.dead) >= $2::bigint / 2
           AND sum(a.failed) * 2 >= sum(a.succeeded + a.failed)
    ) AS s
    CROSS JOIN LATERAL (
        SELECT EXISTS (
            SELECT FROM gnomon.condition AS c
            WHERE c.kind = $3 AND c.tenant_id = s.tenant_id AND c.key = s.task_type
        ) AS goes_on
        OFFSET 0
    ) AS c
    WHERE c.goes_on OR s.retries >= $2::bigint
) AS r
WHERE r.rank <= $5
ORDER BY r.rank, r.retries DESC
LIMIT $4
