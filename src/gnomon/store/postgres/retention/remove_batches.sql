-- Batches that ended before $1, $2 at most. One with dead letters stays: they may be tried again.
DELETE FROM gnomon.batch AS b
USING (
    SELECT e.ctid FROM gnomon.batch AS e
    WHERE e.finished_at < $1 AND e.dead = 0 AND NOT e.step
    ORDER BY e.finished_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
) AS e
WHERE b.ctid = e.ctid
