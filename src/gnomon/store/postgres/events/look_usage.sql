-- What each tenant has used of a day ($1) until now. At most $3 tenants, after $2.
SELECT tenant_id, sum(submissions)::bigint AS submissions, sum(executions)::bigint AS executions,
    sum(compute_seconds) AS compute_seconds, sum(stored_bytes)::bigint AS stored_bytes
FROM gnomon.usage
WHERE day = $1::date AND tenant_id > $2::text
GROUP BY tenant_id
ORDER BY tenant_id
LIMIT $3
