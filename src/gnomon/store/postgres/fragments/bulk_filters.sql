-- bulk_matching: whether the task e matches the filter of a bulk operation. $5 states, $6 is due, $7 was
-- tried, $8 type, $9 lane, $10 tag, $11 cron job, $12 due from, $13 due before, $14 queue, $15 batch,
-- $16 text of its last error, $17 it ended by then, if it has ended. Null filters nothing.
-- One that was claimed ahead of its time waits until then.
($5::smallint[] IS NULL
    OR CASE WHEN e.state = 1 AND e.started_at = e.due_at AND e.due_at > (SELECT now FROM moment)
        THEN 0 ELSE e.state END = ANY ($5))
AND ($6::boolean IS NULL OR (e.due_at <= (SELECT now FROM moment)) = $6)
AND ($7::boolean IS NULL
    OR (e.attempt > CASE WHEN e.state = 1 AND e.started_at = e.due_at AND e.due_at > (SELECT now FROM moment)
        THEN 1 ELSE 0 END) = $7)
AND ($8::text IS NULL OR e.task_type = $8)
AND ($9::smallint IS NULL OR e.lane = $9)
AND ($10::text IS NULL OR e.tags ? $10)
AND ($11::uuid IS NULL OR e.cron_job_id = $11)
AND ($12::timestamptz IS NULL OR e.due_at >= $12)
AND ($13::timestamptz IS NULL OR e.due_at < $13)
AND ($14::text IS NULL OR e.queue = $14)
AND ($15::uuid IS NULL OR e.batch_id = $15)
AND ($16::text IS NULL OR strpos(e.last_error, $16) > 0)
AND ($17::timestamptz IS NULL OR e.over_at IS NULL OR e.over_at <= $17)
