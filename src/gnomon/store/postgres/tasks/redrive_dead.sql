-- Run matching dead letters again (DEAD, REDRIVE -> WAITING), newest first: now, each with its whole
-- retry budget. At most 10 000 are examined. Of those that are no cron job's runs, and so count, the
-- newest $11; the others are left out. One row without a lane says so (left_out), and one more where
-- to go on, if there is more.
-- $1 tenant, $2 older than this id, $3 at most, $4 type, $5 lane, $6 tag, $7 cron job, $8 due from,
-- $9 due before, $10 queue. Null filters nothing.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
), examined AS MATERIALIZED (
    SELECT id, task_type, lane, tags, cron_job_id, due_at, queue
    FROM gnomon.task
    WHERE state = 4 AND tenant_id = $1 AND id < $2
    ORDER BY id DESC
    LIMIT 10000
), matching AS MATERIALIZED (
    SELECT id, cron_job_id IS NOT NULL
        OR count(*) FILTER (WHERE cron_job_id IS NULL) OVER (ORDER BY id DESC) <= $11 AS fits
    FROM examined AS e
    WHERE ($4::text IS NULL OR e.task_type = $4)
      AND ($5::smallint IS NULL OR e.lane = $5)
      AND ($6::text IS NULL OR e.tags ? $6)
      AND ($7::uuid IS NULL OR e.cron_job_id = $7)
      AND ($8::timestamptz IS NULL OR e.due_at >= $8)
      AND ($9::timestamptz IS NULL OR e.due_at < $9)
      AND ($10::text IS NULL OR e.queue = $10)
), chosen AS MATERIALIZED (
    SELECT id FROM matching WHERE fits
    ORDER BY id DESC
    LIMIT $3
), held AS MATERIALIZED (
    SELECT t.id
    FROM chosen AS c
    CROSS JOIN LATERAL (
        SELECT task.id FROM gnomon.task
        WHERE task.tenant_id = $1 AND task.id = c.id AND task.state = 4
        FOR UPDATE SKIP LOCKED
    ) AS t
), moved AS (
    UPDATE gnomon.task AS t
    SET state = 0,
        due_at = m.now,
        expires_at = CASE WHEN t.expires_at > m.now THEN t.expires_at END,
        retries_left = coalesce((t.retry_policy ->> 'max_retries')::integer, 3),
        losses = 0
    FROM held AS h, moment AS m
    WHERE t.tenant_id = $1 AND t.id = h.id
    RETURNING t.id, t.lane, t.due_at, t.cron_job_id IS NOT NULL AS recurring, t.flow,
        gnomon.is_by_handler(t.target) AS by_handler
), stop AS (
    (SELECT id FROM chosen WHERE (SELECT count(*) FROM chosen) = $3 ORDER BY id LIMIT 1)
    UNION ALL
    (SELECT id FROM examined
     WHERE (SELECT count(*) FROM chosen) < $3 AND (SELECT count(*) FROM examined) = 10000
     ORDER BY id LIMIT 1)
)
SELECT id, lane, due_at, recurring, flow, by_handler, NULL::boolean AS left_out FROM moved
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, EXISTS (SELECT FROM matching WHERE NOT fits)
UNION ALL
SELECT id, NULL, NULL, NULL, NULL, NULL, NULL FROM stop
