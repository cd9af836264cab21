-- Tasks that run, $1 at the most: by the small index of all that do, for all others may have dead entries.
SELECT count(*) AS tasks
FROM (
    SELECT node FROM gnomon.task
    WHERE state = 1 AND node >= '00000000-0000-0000-0000-000000000000'
    ORDER BY node
    LIMIT $1
) AS t
