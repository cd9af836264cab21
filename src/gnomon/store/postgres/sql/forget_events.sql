-- Events past retention, at most $2 at once. $1 the lowest id that is kept: ids are in the order of
-- time, so their key finds the old ones of each tenant.
WITH RECURSIVE tenant AS (
    SELECT (SELECT min(tenant_id) FROM gnomon.event) AS id
    UNION ALL
    SELECT (SELECT min(e.tenant_id) FROM gnomon.event AS e WHERE e.tenant_id > tenant.id)
    FROM tenant
    WHERE tenant.id IS NOT NULL
), past AS MATERIALIZED (
    SELECT old.place
    FROM tenant
    CROSS JOIN LATERAL (
        SELECT e.ctid AS place
        FROM gnomon.event AS e
        WHERE e.tenant_id = tenant.id AND e.id < $1
        ORDER BY e.id
        LIMIT $2
    ) AS old
    LIMIT $2
)
-- Events are never changed, so they stay at their place.
DELETE FROM gnomon.event WHERE ctid = ANY (ARRAY(SELECT place FROM past))
