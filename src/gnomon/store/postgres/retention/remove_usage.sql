-- Usage from more than $1 days ago, at most $2 rows at once: the key finds the old days of each
-- tenant.
WITH RECURSIVE tenant AS (
    SELECT (SELECT min(tenant_id) FROM gnomon.usage) AS id
    UNION ALL
    SELECT (SELECT min(u.tenant_id) FROM gnomon.usage AS u WHERE u.tenant_id > tenant.id)
    FROM tenant
    WHERE tenant.id IS NOT NULL
), past AS MATERIALIZED (
    SELECT old.place
    FROM tenant
    CROSS JOIN LATERAL (
        SELECT u.ctid AS place
        FROM gnomon.usage AS u
        WHERE u.tenant_id = tenant.id
          AND u.day < (gnomon.now() AT TIME ZONE 'UTC')::date - $1::integer
        ORDER BY u.day
        LIMIT $2::integer
    ) AS old
    LIMIT $2::integer
)
DELETE FROM gnomon.usage WHERE ctid = ANY (ARRAY(SELECT place FROM past))
