-- Flows of a tenant with due tasks: what limits and breakers ask about them, and how many tasks of
-- each are due. Flows are found by a probe of their index each, and of each flow so many tasks are
-- counted that all together have a bound. Counts are lower bounds where `more` says so; a row without
-- a type says that there are more flows.
-- $1 tenant, $2 flows, $3 tasks of a flow at the most, $4 of all flows.
WITH RECURSIVE moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
), flow AS (
    (SELECT lane, flow, 1 AS number
     FROM gnomon.task
     WHERE state = 0 AND tenant_id = $1
     ORDER BY lane, flow
     LIMIT 1)
    UNION ALL
    SELECT n.lane, n.flow, f.number + 1
    FROM flow AS f
    CROSS JOIN LATERAL (
        SELECT lane, flow
        FROM gnomon.task
        WHERE state = 0 AND tenant_id = $1 AND (lane, flow) > (f.lane, f.flow)
        ORDER BY lane, flow
        LIMIT 1
    ) AS n
    WHERE f.number < $2::integer
), chosen AS MATERIALIZED (
    SELECT f.lane, f.flow, k.task_type, k.queue, k.limit_keys, k.url
    FROM flow AS f
    CROSS JOIN LATERAL (
        SELECT task_type, queue, limit_keys, target ->> 'url' AS url
        FROM gnomon.task
        WHERE state = 0 AND tenant_id = $1 AND lane = f.lane AND flow = f.flow
          AND due_at <= (SELECT now FROM moment)
        ORDER BY due_at
        LIMIT 1
    ) AS k
), room AS MATERIALIZED (
    SELECT least($3::bigint, greatest(20, $4::bigint / greatest(1, count(*)))) AS most FROM chosen
)
SELECT c.task_type, c.queue, c.limit_keys, c.url, d.due, d.due >= r.most AS more
FROM chosen AS c
CROSS JOIN room AS r
CROSS JOIN LATERAL (
    SELECT count(*) AS due
    FROM (
        SELECT
        FROM gnomon.task
        WHERE state = 0 AND tenant_id = $1 AND lane = c.lane AND flow = c.flow
          AND due_at <= (SELECT now FROM moment)
        ORDER BY due_at
        LIMIT (SELECT most FROM room)
    ) AS e
) AS d
UNION ALL
SELECT NULL, NULL, NULL, NULL, 0, true FROM flow HAVING max(number) >= $2::integer
