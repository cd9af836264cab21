-- Add counts to their minutes and hours. Rows are locked in one order, so that two processes that meet
-- cannot wait for each other. $1 tenants, $2 minutes of a row, $3 types, $4 starts, $5 lanes, then the
-- counts; $12 the delays, all rows in one array, as $13 for each.
INSERT INTO gnomon.activity AS a (
    tenant_id, span, task_type, starts_at, lane, submitted, started, succeeded, failed, dead, seconds,
    delays
)
SELECT
    r.tenant_id, r.span, r.task_type, r.starts_at, r.lane, r.submitted, r.started, r.succeeded,
    r.failed, r.dead, r.seconds,
    ($12::bigint[])[(r.place - 1) * $13::integer + 1 : r.place * $13::integer]
FROM unnest(
    $1::text[], $2::smallint[], $3::text[], $4::timestamptz[], $5::smallint[], $6::bigint[],
    $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::float8[]
) WITH ORDINALITY AS r (
    tenant_id, span, task_type, starts_at, lane, submitted, started, succeeded, failed, dead,
    seconds, place
)
ORDER BY r.place
ON CONFLICT (tenant_id, span, task_type, starts_at, lane) DO UPDATE
SET submitted = a.submitted + excluded.submitted,
    started = a.started + excluded.started,
    succeeded = a.succeeded + excluded.succeeded,
    failed = a.failed + excluded.failed,
    dead = a.dead + excluded.dead,
    seconds = a.seconds + excluded.seconds,
    delays = CASE WHEN excluded.started = 0 THEN a.delays ELSE ARRAY(
        SELECT coalesce(x, 0) + coalesce(y, 0)
        FROM unnest(a.delays, excluded.delays) WITH ORDINALITY AS u (x, y, n) ORDER BY n
    ) END
