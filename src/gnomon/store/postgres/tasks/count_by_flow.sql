-- Waiting tasks of a tenant by lane, type and queue: those that are due, and those that will be. Its
-- flows are found by a probe of their index each, and of each flow so many tasks are examined that
-- all flows together have a bound. Counts are lower bounds where `more` says so; a row without a
-- lane says that there are more flows.
-- $2 flows, $3 tasks of a flow at the most, $4 of all flows, $5 type, $6 lane, $7 tag, $8 cron job,
-- $9 due from, $10 due before, $11 queue, $12 batch; null filters nothing. $13 the first id, $14
-- the last.
WITH RECURSIVE moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
), flow AS (
    (SELECT lane, flow, task_type, queue, 1 AS number
     FROM gnomon.task
     WHERE state = 0 AND tenant_id = $1
     ORDER BY lane, flow
     LIMIT 1)
    UNION ALL
    SELECT n.lane, n.flow, n.task_type, n.queue, f.number + 1
    FROM flow AS f
    CROSS JOIN LATERAL (
        -- Tasks of one flow are of one type and queue.
        SELECT lane, flow, task_type, queue
        FROM gnomon.task
        WHERE state = 0 AND tenant_id = $1 AND (lane, flow) > (f.lane, f.flow)
        ORDER BY lane, flow
        LIMIT 1
    ) AS n
    WHERE f.number < $2::integer
), chosen AS MATERIALIZED (
    SELECT lane, flow, task_type, queue
    FROM flow
    WHERE ($5::text IS NULL OR task_type = $5)
      AND ($6::smallint IS NULL OR lane = $6)
      AND ($11::text IS NULL OR queue = $11)
), room AS MATERIALIZED (
    SELECT least($3::bigint, greatest(20, $4::bigint / greatest(1, count(*)))) AS most FROM chosen
)
SELECT
    c.lane, c.task_type, c.queue, r.ready,
    -- Plain SQL can write a time that is infinitely far away.
    CASE WHEN r.oldest IS NOT NULL THEN greatest(r.oldest, m.now - interval '1000 years') END AS oldest,
    r.more AS ready_more, l.scheduled, l.failed, l.more AS later_more, m.now
FROM chosen AS c
CROSS JOIN moment AS m
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE e.fits) AS ready,
        min(e.due_at) FILTER (WHERE e.fits) AS oldest,
        count(*) >= (SELECT most FROM room) AS more
    FROM (
        SELECT
            due_at,
            ($7::text IS NULL OR tags ? $7) AND ($8::uuid IS NULL OR cron_job_id = $8)
                AND ($12::uuid IS NULL OR batch_id = $12) AND id BETWEEN $13 AND $14 AS fits
        FROM gnomon.task
        WHERE state = 0 AND tenant_id = $1 AND lane = c.lane AND flow = c.flow
          AND due_at <= (SELECT now FROM moment)
          AND due_at >= coalesce($9::timestamptz, '-infinity')
          AND due_at < coalesce($10::timestamptz, 'infinity')
        ORDER BY due_at
        LIMIT (SELECT most FROM room)
    ) AS e
) AS r
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE e.fits AND e.attempt = 0) AS scheduled,
        count(*) FILTER (WHERE e.fits AND e.attempt > 0) AS failed,
        count(*) >= (SELECT most FROM room) AS more
    FROM (
        SELECT
            attempt,
            ($7::text IS NULL OR tags ? $7) AND ($8::uuid IS NULL OR cron_job_id = $8)
                AND ($12::uuid IS NULL OR batch_id = $12) AND id BETWEEN $13 AND $14 AS fits
        FROM gnomon.task
        WHERE state = 0 AND tenant_id = $1 AND lane = c.lane AND flow = c.flow
          AND due_at > (SELECT now FROM moment)
          AND due_at >= coalesce($9::timestamptz, '-infinity')
          AND due_at < coalesce($10::timestamptz, 'infinity')
        ORDER BY due_at
        LIMIT (SELECT most FROM room)
    ) AS e
) AS l
UNION ALL
SELECT NULL, NULL, NULL, 0, NULL, true, 0, 0, true, NULL FROM flow HAVING max(number) >= $2::integer
