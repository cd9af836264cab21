-- Resolutions past retention, as their tasks are, at most $2 at once. $1 the first moment that is kept.
WITH past AS MATERIALIZED (
    SELECT ctid AS place
    FROM gnomon.resolution
    WHERE resolved_at < $1
    ORDER BY resolved_at
    LIMIT $2::integer
    FOR UPDATE SKIP LOCKED
)
DELETE FROM gnomon.resolution WHERE ctid = ANY (ARRAY(SELECT place FROM past))
