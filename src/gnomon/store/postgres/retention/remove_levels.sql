-- Weeks of service levels from more than $1 weeks ago, at most $2 rows at once.
WITH past AS MATERIALIZED (
    SELECT ctid AS place
    FROM gnomon.service_level
    WHERE week < (gnomon.now() AT TIME ZONE 'UTC')::date - 7 * $1::integer
    ORDER BY week
    LIMIT $2::integer
)
DELETE FROM gnomon.service_level WHERE ctid = ANY (ARRAY(SELECT place FROM past))
