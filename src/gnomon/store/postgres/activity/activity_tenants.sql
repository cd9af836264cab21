-- The activity of each tenant in steps of $4 from $2 to before $3, of rows about $1 minutes, and,
-- unless null, of the lane $5: of the $6 tenants that ran for longest, and, without a name, of all others.
WITH top AS MATERIALIZED (
    SELECT tenant_id
    FROM gnomon.activity
    WHERE span = $1::smallint AND task_type = '' AND starts_at >= $2 AND starts_at < $3
      AND ($5::smallint IS NULL OR lane = $5)
    GROUP BY tenant_id
    ORDER BY sum(seconds) DESC, sum(started) DESC, tenant_id
    LIMIT $6::integer
)
SELECT
    -- Looked up in a hash: a join would compare every row with every tenant on a table never analyzed.
    CASE WHEN tenant_id IN (SELECT tenant_id FROM top) THEN tenant_id END AS tenant_id,
    date_bin($4::interval, starts_at, $2::timestamptz) AS starts_at, {activity_sums}
FROM gnomon.activity
WHERE span = $1::smallint AND task_type = '' AND starts_at >= $2 AND starts_at < $3
  AND ($5::smallint IS NULL OR lane = $5)
GROUP BY 1, 2
ORDER BY 2, 1
