-- Tasks of tenant $1 that wait and are due from now on, by the hour of the next 24. Its flows are found by
-- a probe of their index each, $2 at the most, and about $5 of them are looked at, which stand for all. Of
-- each flow and hour so many tasks are examined, $3 at the most, that there are about $4 in all. Where an
-- hour of a flow has more, those that were examined say how densely they lie, and the rest is taken to lie
-- as densely.
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
), found AS MATERIALIZED (
    SELECT count(*) AS flows, greatest(1, ceil(count(*) / $5::float8))::bigint AS every FROM flow
), chosen AS MATERIALIZED (
    SELECT f.lane, f.flow FROM flow AS f, found WHERE (f.number - 1) % found.every = 0
), room AS MATERIALIZED (
    SELECT least($3::bigint, greatest(10, $4::bigint / greatest(1, 24 * c.chosen))) AS most,
        found.flows = $2::integer OR found.every > 1 AS more,
        found.flows::float8 / greatest(1, c.chosen) AS stands_for
    FROM found, (SELECT count(*) AS chosen FROM chosen) AS c
), hours AS MATERIALIZED (
    SELECT hour + make_interval(hours => n) AS starts_at,
        greatest(now, hour + make_interval(hours => n)) AS since,
        hour + make_interval(hours => n + 1) AS until
    FROM moment, generate_series(0, 23) AS n
)
SELECT
    h.starts_at, coalesce(sum(e.count), 0)::bigint AS count,
    coalesce(bool_or(e.count = room.most), false) OR bool_or(room.more) AS capped,
    coalesce(sum(
        CASE WHEN e.count < room.most OR e.last - h.since < interval '1 second' THEN e.count
            ELSE e.count * extract(epoch FROM h.until - h.since) / extract(epoch FROM e.last - h.since)
        END * room.stands_for
    ), 0)::bigint AS estimate
FROM hours AS h
CROSS JOIN room
LEFT JOIN chosen AS f ON true
LEFT JOIN LATERAL (
    SELECT count(*) AS count, max(x.due_at) AS last
    FROM (
        SELECT due_at
        FROM gnomon.task
        WHERE state = 0 AND tenant_id = $1 AND lane = f.lane AND flow = f.flow
          AND due_at >= h.since AND due_at < h.until
        ORDER BY due_at
        LIMIT (SELECT most FROM room)
    ) AS x
) AS e ON true
GROUP BY h.starts_at
ORDER BY h.starts_at
