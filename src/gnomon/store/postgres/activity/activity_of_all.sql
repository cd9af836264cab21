-- The activity of all tenants together in steps of $4 from $2 to before $3, of rows about $1 minutes, and,
-- unless null, of the lane $5.
SELECT date_bin($4::interval, starts_at, $2::timestamptz) AS starts_at, {activity_sums}
FROM gnomon.activity
WHERE span = $1::smallint AND task_type = '' AND starts_at >= $2 AND starts_at < $3
  AND ($5::smallint IS NULL OR lane = $5)
GROUP BY 1
ORDER BY 1
