-- Tasks of a tenant by state: dead letters by their own index; paused and blocked ones among the
-- newest live tasks; those that are over among the newest of these. At most $2 of each are examined,
-- and of each only its state is kept, and whether it fits the filter.
-- $3 type, $4 lane, $5 tag, $6 cron job, $7 due from, $8 due before, $9 queue, $10 batch; null filters
-- nothing. $11 the first id, $12 the last.
WITH dead AS MATERIALIZED (
    SELECT
        4 AS state, id >= $11
            AND ($3::text IS NULL OR task_type = $3) AND ($4::smallint IS NULL OR lane = $4)
            AND ($5::text IS NULL OR tags ? $5) AND ($6::uuid IS NULL OR cron_job_id = $6)
            AND ($7::timestamptz IS NULL OR due_at >= $7) AND ($8::timestamptz IS NULL OR due_at < $8)
            AND ($9::text IS NULL OR queue = $9)
            AND ($10::uuid IS NULL OR batch_id = $10) AS fits
    FROM gnomon.task
    WHERE state = 4 AND tenant_id = $1 AND id <= $12
    ORDER BY id DESC
    LIMIT $2
), live AS MATERIALIZED (
    SELECT
        state, id >= $11
            AND ($3 IS NULL OR task_type = $3) AND ($4 IS NULL OR lane = $4)
            AND ($5 IS NULL OR tags ? $5) AND ($6 IS NULL OR cron_job_id = $6)
            AND ($7 IS NULL OR due_at >= $7) AND ($8 IS NULL OR due_at < $8)
            AND ($9 IS NULL OR queue = $9) AND ($10 IS NULL OR batch_id = $10) AS fits
    FROM gnomon.task
    WHERE tenant_id = $1 AND id <= $12
    ORDER BY id DESC
    LIMIT $2
), over AS MATERIALIZED (
    SELECT
        state, id >= $11
            AND ($3 IS NULL OR task_type = $3) AND ($4 IS NULL OR lane = $4)
            AND ($5 IS NULL OR tags ? $5) AND ($6 IS NULL OR cron_job_id = $6)
            AND ($7 IS NULL OR execute_at >= $7) AND ($8 IS NULL OR execute_at < $8)
            AND ($9 IS NULL OR queue = $9) AND ($10 IS NULL OR batch_id = $10) AS fits
    FROM gnomon.task_archive
    WHERE tenant_id = $1 AND id <= $12
    ORDER BY id DESC
    LIMIT $2
), counted AS (
    SELECT 4 AS state, count(*) FILTER (WHERE fits) AS number FROM dead
    UNION ALL
    SELECT state, count(*) FILTER (WHERE fits) FROM live WHERE state IN (2, 3) GROUP BY state
    UNION ALL
    SELECT state, count(*) FILTER (WHERE fits) FROM over GROUP BY state
)
SELECT s.state, coalesce(c.number, 0) AS number, s.more
FROM (
    SELECT unnest('{2,3}'::smallint[]) AS state, (SELECT count(*) FROM live) >= $2 AS more
    UNION ALL
    SELECT 4, (SELECT count(*) FROM dead) >= $2
    UNION ALL
    SELECT unnest('{10,11,12,13}'::smallint[]), (SELECT count(*) FROM over) >= $2
) AS s
LEFT JOIN counted AS c ON c.state = s.state
