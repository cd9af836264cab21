-- Say that runs past their deadline are to be cancelled, or rolled back. $1 how many at once.
UPDATE gnomon.workflow_run AS r
SET state = CASE WHEN r.rolls_back THEN 2 ELSE 1 END, reason = 'its deadline has passed', paused = false, held = false
FROM (
    SELECT l.ctid FROM gnomon.workflow_run AS l
    WHERE l.state = 0 AND l.deadline <= (SELECT gnomon.now())
    ORDER BY l.deadline
    LIMIT $1
    FOR UPDATE SKIP LOCKED
) AS l
WHERE r.ctid = l.ctid
RETURNING r.id
