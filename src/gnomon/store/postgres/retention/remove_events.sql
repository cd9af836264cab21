-- Events past retention, at most $2 at once. $1 the lowest id that is kept: ids are in the order of
-- time, so their key finds the old ones of each tenant. $3 and $4 the tenant and id where the batch
-- before stopped ('' and the lowest id: from the beginning). Gives how many, and where it stopped.
WITH RECURSIVE tenant AS (
    SELECT (SELECT min(tenant_id) FROM gnomon.event WHERE tenant_id >= $3::text) AS id
    UNION ALL
    SELECT (SELECT min(e.tenant_id) FROM gnomon.event AS e WHERE e.tenant_id > tenant.id)
    FROM tenant
    WHERE tenant.id IS NOT NULL
), past AS MATERIALIZED (
    SELECT old.place, tenant.id AS tenant_id, old.id, old.number
    FROM tenant
    CROSS JOIN LATERAL (
        SELECT e.ctid AS place, e.id, e.number
        FROM gnomon.event AS e
        WHERE e.tenant_id = tenant.id AND e.id < $1
          -- One that has no number was told to nobody yet.
          AND e.number + 0 IS NOT NULL
          AND e.id >= CASE WHEN tenant.id = $3 THEN $4::uuid
              ELSE '00000000-0000-0000-0000-000000000000' END
        ORDER BY e.id
        LIMIT $2::integer
    ) AS old
    LIMIT $2::integer
), gone AS (
    -- One that somebody takes note of meanwhile moves, and is left for the next batch.
    DELETE FROM gnomon.event WHERE ctid = ANY (ARRAY(SELECT place FROM past))
), told AS (
    -- Who wants to read on from below this number has missed some.
    UPDATE gnomon.event_order
    SET forgotten = greatest(forgotten, (SELECT max(number) FROM past))
    WHERE forgotten < (SELECT max(number) FROM past)
)
SELECT count(*) OVER () AS removed, tenant_id, id
FROM past
ORDER BY tenant_id DESC, id DESC
LIMIT 1
