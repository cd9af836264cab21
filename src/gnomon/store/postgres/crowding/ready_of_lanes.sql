-- How many tasks are due and wait in each lane of tenants that have a quota of them: at most $2 of a
-- lane, in $3 of its flows. Flows are found by a probe of their index each.
-- $1 tenants, $2 how far to count in a lane of each, $3 flows.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
)
SELECT a.tenant_id, l.lane, r.ready
FROM unnest($1::text[], $2::bigint[]) AS a (tenant_id, most)
CROSS JOIN unnest(ARRAY[0, 1, 2, 3]::smallint[]) AS l (lane)
CROSS JOIN LATERAL (
    WITH RECURSIVE flow AS (
        (SELECT task.flow, 1 AS number
         FROM gnomon.task
         WHERE task.state = 0 AND task.tenant_id = a.tenant_id AND task.lane = l.lane
         ORDER BY task.flow
         LIMIT 1)
        UNION ALL
        SELECT n.flow, f.number + 1
        FROM flow AS f
        CROSS JOIN LATERAL (
            SELECT task.flow
            FROM gnomon.task
            WHERE task.state = 0 AND task.tenant_id = a.tenant_id AND task.lane = l.lane
              AND task.flow > f.flow
            ORDER BY task.flow
            LIMIT 1
        ) AS n
        WHERE f.number < $3::integer
    )
    SELECT count(*) AS ready
    FROM (
        SELECT
        FROM flow AS f
        CROSS JOIN LATERAL (
            SELECT
            FROM gnomon.task
            WHERE task.state = 0 AND task.tenant_id = a.tenant_id AND task.lane = l.lane
              AND task.flow = f.flow AND task.due_at <= (SELECT now FROM moment)
            ORDER BY task.due_at
            LIMIT a.most
        ) AS e
        LIMIT a.most
    ) AS counted
) AS r
WHERE r.ready > 0
