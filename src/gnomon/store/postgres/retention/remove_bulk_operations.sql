-- Ended bulk operations past retention, at most $2 at once. $1 the lowest id that is kept.
WITH past AS MATERIALIZED (
    SELECT ctid AS place
    FROM gnomon.bulk_operation
    WHERE id < $1 AND status <> 'RUNNING'
    ORDER BY id
    LIMIT $2::integer
    FOR UPDATE SKIP LOCKED
)
DELETE FROM gnomon.bulk_operation WHERE ctid = ANY (ARRAY(SELECT place FROM past))
