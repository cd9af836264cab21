-- list_matching: whether the task e matches the filter of a list. $4 states, $5 is due, $6 was tried,
-- $7 type, $8 lane, $9 tag, $10 cron job, $11 due from, $12 due before, $13 queue,
-- $14 batch. Null filters nothing.
-- One that was claimed ahead of its time waits until then.
($4::smallint[] IS NULL
    OR CASE WHEN e.state = 1 AND e.started_at = e.due_at AND e.due_at > (SELECT now FROM moment)
        THEN 0 ELSE e.state END = ANY ($4))
AND ($5::boolean IS NULL OR (e.due_at <= (SELECT now FROM moment)) = $5)
AND ($6::boolean IS NULL
    OR (e.attempt > CASE WHEN e.state = 1 AND e.started_at = e.due_at AND e.due_at > (SELECT now FROM moment)
        THEN 1 ELSE 0 END) = $6)
AND ($7::text IS NULL OR e.task_type = $7)
AND ($8::smallint IS NULL OR e.lane = $8)
AND ($9::text IS NULL OR e.tags ? $9)
AND ($10::uuid IS NULL OR e.cron_job_id = $10)
AND ($11::timestamptz IS NULL OR e.due_at >= $11)
AND ($12::timestamptz IS NULL OR e.due_at < $12)
AND ($13::text IS NULL OR e.queue = $13)
AND ($14::uuid IS NULL OR e.batch_id = $14)
