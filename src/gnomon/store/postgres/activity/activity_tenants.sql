-- The activity of each tenant in steps of $4 from $2 to before $3, of rows about $1 minutes, and,
-- unless null, of the lane $5: of the $6 tenants that ran for longest, and, without a name, of all others.
-- $2 is the beginning of a step, and so of a row. Each moment is looked up by itself: in the index the rows
-- of all task types lie between those of one moment and of the next.
WITH moment AS (
    SELECT generate_series(
        greatest(
            $2::timestamptz,  -- or, where nothing is so old, from the first row on
            (SELECT starts_at FROM gnomon.activity WHERE span = $1::smallint ORDER BY starts_at LIMIT 1)
        ),
        $3::timestamptz - interval '1 microsecond',
        make_interval(mins => $1::smallint)
    ) AS at
), top AS MATERIALIZED (
    SELECT found.tenant_id
    FROM moment
    CROSS JOIN LATERAL (
        SELECT tenant_id, seconds, started
        FROM gnomon.activity
        WHERE span = $1::smallint AND starts_at = moment.at AND task_type = ''
          AND ($5::smallint IS NULL OR lane = $5)
        OFFSET 0
    ) AS found
    GROUP BY found.tenant_id
    ORDER BY sum(found.seconds) DESC, sum(found.started) DESC, found.tenant_id
    LIMIT $6::integer
)
SELECT
    -- Looked up in a hash: a join would compare every row with every tenant on a table never analyzed.
    CASE WHEN tenant_id IN (SELECT tenant_id FROM top) THEN tenant_id END AS tenant_id,
    date_bin($4::interval, moment.at, $2::timestamptz) AS starts_at, {activity_sums}
FROM moment
CROSS JOIN LATERAL (
    SELECT *
    FROM gnomon.activity
    WHERE span = $1::smallint AND starts_at = moment.at AND task_type = ''
      AND ($5::smallint IS NULL OR lane = $5)
    OFFSET 0
) AS found
GROUP BY 1, 2
ORDER BY 2, 1
