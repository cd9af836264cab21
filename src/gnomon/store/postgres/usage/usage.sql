-- The usage of a tenant on each day from $2 to $3.
SELECT day, sum(submissions)::bigint, sum(executions)::bigint, sum(compute_seconds),
    sum(stored_bytes)::bigint
FROM gnomon.usage
WHERE tenant_id = $1 AND day BETWEEN $2 AND $3
GROUP BY day
ORDER BY day
