-- What each tenant used on each day from $1 to $2, after the tenant $3 and its day $4. $5 at most.
SELECT tenant_id, day, sum(submissions)::bigint AS submissions, sum(executions)::bigint AS executions,
    sum(compute_seconds) AS compute_seconds, sum(stored_bytes)::bigint AS stored_bytes
FROM gnomon.usage
WHERE day BETWEEN $1 AND $2 AND (tenant_id, day) > ($3::text, $4::date)
GROUP BY tenant_id, day
ORDER BY tenant_id, day
LIMIT $5
