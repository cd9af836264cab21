-- The activity of tenant $1 in steps of $6 from $4 to before $5, of rows about $2 minutes, of the type
-- $3 ('': all) and, unless null, of the lane $7.
SELECT date_bin($6::interval, starts_at, $4::timestamptz) AS starts_at, {activity_sums}
FROM gnomon.activity
-- Compared as rows, which the index by time, that of all tenants, does not answer to. The tenant is not
-- in them: beside its own condition a row with it would be read from the tenant's first row on.
WHERE tenant_id = $1
  AND (span, task_type, starts_at) >= ($2::smallint, $3, $4)
  AND (span, task_type, starts_at) < ($2::smallint, $3, $5)
  AND ($7::smallint IS NULL OR lane = $7)
GROUP BY 1
ORDER BY 1
