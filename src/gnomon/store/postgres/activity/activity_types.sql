-- The task types of tenant $1 that have rows of their own, from $3 to before $4, of rows about $2 minutes;
-- of the lane $5, unless null. The key leads from type to type, at most $6 of them.
WITH RECURSIVE named AS (
    SELECT (
        SELECT min(task_type) FROM gnomon.activity
        WHERE tenant_id = $1 AND span = $2::smallint AND task_type > ''
    ) AS task_type, 1 AS place
    UNION ALL
    SELECT (
        SELECT min(a.task_type) FROM gnomon.activity AS a
        WHERE a.tenant_id = $1 AND a.span = $2::smallint AND a.task_type > named.task_type
    ), named.place + 1
    FROM named
    WHERE named.task_type IS NOT NULL AND named.place < $6::integer
)
SELECT named.task_type, s.*
FROM named
CROSS JOIN LATERAL (
    SELECT {activity_sums}
    FROM gnomon.activity
    WHERE tenant_id = $1  -- see activity_points
      AND (span, task_type, starts_at) >= ($2::smallint, named.task_type, $3)
      AND (span, task_type, starts_at) < ($2::smallint, named.task_type, $4)
      AND ($5::smallint IS NULL OR lane = $5)
    HAVING count(*) > 0
) AS s
WHERE named.task_type IS NOT NULL
