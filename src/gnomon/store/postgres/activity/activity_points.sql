-- The activity of tenant $1 in steps of $6 from $4 to before $5, of rows about $2 minutes, of the type
-- $3 ('': all) and, unless null, of the lane $7.
SELECT date_bin($6::interval, starts_at, $4::timestamptz) AS starts_at, {activity_sums}
FROM gnomon.activity
WHERE tenant_id = $1 AND span = $2::smallint AND task_type = $3 AND starts_at >= $4 AND starts_at < $5
  AND ($7::smallint IS NULL OR lane = $7)
GROUP BY 1
ORDER BY 1
