-- The usage of every tenant on each day from $1 to $2.
SELECT tenant_id, day, sum(submissions)::bigint, sum(executions)::bigint, sum(compute_seconds),
    sum(stored_bytes)::bigint
FROM gnomon.usage
WHERE day BETWEEN $1 AND $2
GROUP BY tenant_id, day
ORDER BY tenant_id, day
