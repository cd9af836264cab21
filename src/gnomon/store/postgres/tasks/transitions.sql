-- A page of the transitions of a task, oldest first; one row without a number for a task that has none
-- of these, no row for one that does not exist and has left none. $3 after this number, $4 how many.
SELECT t.*
FROM (
    SELECT
    WHERE EXISTS (SELECT FROM gnomon.transition WHERE tenant_id = $1 AND task_id = $2)
       OR EXISTS (SELECT FROM gnomon.task WHERE tenant_id = $1 AND id = $2)
       OR EXISTS (SELECT FROM gnomon.task_archive WHERE tenant_id = $1 AND id = $2)
) AS found
LEFT JOIN (
    SELECT number, at, from_state, to_state, attempt, fence, node
    FROM gnomon.transition
    WHERE tenant_id = $1 AND task_id = $2 AND number > $3
    ORDER BY number
    LIMIT $4
) AS t ON true
ORDER BY t.number
