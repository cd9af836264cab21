-- Batches that were not closed in time: nothing more is put in, and no callback starts. One that somebody
-- holds is left for the next time. $1 how many at once.
UPDATE gnomon.batch AS b
SET state = 3, step = true, closed_at = gnomon.now(),
    reason = 'it was not closed by its deadline, '
        || to_char(b.deadline AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
FROM (
    SELECT o.ctid FROM gnomon.batch AS o
    WHERE o.state = 0 AND o.deadline <= (SELECT gnomon.now())
    ORDER BY o.deadline
    LIMIT $1
    FOR UPDATE SKIP LOCKED
) AS o
WHERE b.ctid = o.ctid
RETURNING b.id
