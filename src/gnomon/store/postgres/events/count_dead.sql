-- Tasks that became dead letters within a time, by tenant and type, off the roll-up by the minute.
-- $1 from, $2 until, $3 at most so many: all types together ('') of each tenant first, then those with most.
SELECT a.tenant_id, a.task_type, sum(a.dead)::bigint AS dead
FROM gnomon.activity AS a
WHERE a.span = 1 AND a.starts_at >= $1 AND a.starts_at < $2 AND a.dead > 0
GROUP BY a.tenant_id, a.task_type
ORDER BY a.task_type <> '', dead DESC, a.tenant_id, a.task_type
LIMIT $3
