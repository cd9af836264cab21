-- What is known of the copies of tasks, past retention, at most $2 rows at once. $1 the lowest id that is kept.
WITH past AS MATERIALIZED (
    SELECT ctid AS place
    FROM gnomon.task_copy
    WHERE id < $1
    ORDER BY id
    LIMIT $2::integer
    FOR UPDATE SKIP LOCKED
)
DELETE FROM gnomon.task_copy WHERE ctid = ANY (ARRAY(SELECT place FROM past))
