-- How many bulk operations of a tenant are under way, counted up to $2. Others who begin one wait.
WITH alone AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(hashtextextended('gnomon.bulk_operation ' || $1, 0))
)
SELECT count(*) AS open
FROM (
    SELECT FROM gnomon.bulk_operation AS b, alone
    WHERE b.tenant_id = $1 AND b.status = 'RUNNING'
    LIMIT $2
) AS found
