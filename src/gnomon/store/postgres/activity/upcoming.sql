-- Tasks of tenant $1 that wait and are due from now on, by the hour of the next 24. Its flows are found by
-- a probe of their index each, $2 at the most. Of each, the first tasks of these hours are examined, so
-- many that there are about $3 in all: flows with fewer are counted as they are. Of the others, the dense
-- ones, about $4 stand for all of them: of each of their hours some tasks are examined, about $3 in all
-- again, and where there are more, those say how densely they lie, and the rest is taken to lie as densely.
WITH RECURSIVE moment AS MATERIALIZED (
    SELECT gnomon.now() AS now, date_trunc('hour', gnomon.now(), 'UTC') AS hour
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
), bound AS MATERIALIZED (
    SELECT greatest(10, $3::bigint / greatest(1, count(*))) AS most, count(*) = $2::integer AS more
    FROM flow
), looked AS MATERIALIZED (
    SELECT f.lane, f.flow, e.due, cardinality(e.due) >= bound.most AS dense
    FROM flow AS f
    CROSS JOIN bound
    CROSS JOIN LATERAL (
        SELECT array_agg(x.due_at) AS due
        FROM (
            SELECT due_at
            FROM gnomon.task
            WHERE state = 0 AND tenant_id = $1 AND lane = f.lane AND flow = f.flow
              AND due_at >= (SELECT now FROM moment)
              AND due_at < (SELECT hour + interval '24 hours' FROM moment)
            ORDER BY due_at
            LIMIT (SELECT most FROM bound)
        ) AS x
    ) AS e
    WHERE e.due IS NOT NULL
), dense AS MATERIALIZED (
    SELECT lane, flow, row_number() OVER (ORDER BY lane, flow) AS number, count(*) OVER () AS flows
    FROM looked
    WHERE dense
), chosen AS MATERIALIZED (
    SELECT lane, flow, flows FROM dense WHERE (number - 1) % ceil(flows / $4::float8)::bigint = 0
), room AS MATERIALIZED (
    SELECT greatest(10, $3::bigint / greatest(1, 24 * count(*))) AS most,
        max(flows)::float8 / greatest(1, count(*)) AS stands_for
    FROM chosen
), hours AS MATERIALIZED (
    SELECT hour + make_interval(hours => n) AS starts_at,
        greatest(now, hour + make_interval(hours => n)) AS since,
        hour + make_interval(hours => n + 1) AS until
    FROM moment, generate_series(0, 23) AS n
), counted AS (
    SELECT date_bin(interval '1 hour', d.due_at, moment.hour) AS starts_at, count(*) AS count,
        false AS capped, count(*)::float8 AS estimate
    FROM moment, looked AS l, unnest(l.due) AS d (due_at)
    WHERE NOT l.dense
    GROUP BY 1
    UNION ALL
    SELECT h.starts_at, e.count, e.count >= room.most OR room.stands_for > 1,
        CASE WHEN e.count < room.most OR e.last - h.since < interval '1 second' THEN e.count
            ELSE e.count * extract(epoch FROM h.until - h.since) / extract(epoch FROM e.last - h.since)
        END * room.stands_for
    FROM hours AS h
    CROSS JOIN room
    CROSS JOIN chosen AS f
    CROSS JOIN LATERAL (
        SELECT count(*) AS count, max(x.due_at) AS last
        FROM (
            SELECT due_at
            FROM gnomon.task
            WHERE state = 0 AND tenant_id = $1 AND lane = f.lane AND flow = f.flow
              AND due_at >= h.since AND due_at < h.until
            ORDER BY due_at
            LIMIT (SELECT most FROM room)
        ) AS x
    ) AS e
)
SELECT h.starts_at, coalesce(sum(c.count), 0)::bigint AS count,
    coalesce(bool_or(c.capped), false) OR bool_or(bound.more) AS capped,
    coalesce(sum(c.estimate), 0)::bigint AS estimate
FROM hours AS h
CROSS JOIN bound
LEFT JOIN counted AS c ON c.starts_at = h.starts_at
GROUP BY h.starts_at
ORDER BY h.starts_at
