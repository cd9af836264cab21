-- Transitions of before $2, at most $3 at once, oldest first, from $1 on. Gives how many, and up to
-- when: the next batch begins there, past the dead rows that this one leaves.
WITH past AS MATERIALIZED (
    SELECT ctid AS place, at
    FROM gnomon.transition
    WHERE at >= coalesce($1::timestamptz, '-infinity') AND at < $2
    ORDER BY at
    LIMIT $3::integer
), gone AS (
    DELETE FROM gnomon.transition WHERE ctid = ANY (ARRAY(SELECT place FROM past))
)
SELECT count(*) AS removed, max(at) AS reached FROM past
