-- Transitions of before $2, at most $3 at once, oldest first, from $1 on. Gives how many, and up to
-- when: the next batch begins there, past the dead rows that this one leaves. Streams are told up to which
-- transaction some are gone.
WITH past AS MATERIALIZED (
    SELECT ctid AS row, at, xact
    FROM gnomon.transition
    WHERE at >= coalesce($1::timestamptz, '-infinity') AND at < $2
    ORDER BY at
    LIMIT $3::integer
), gone AS (
    DELETE FROM gnomon.transition WHERE ctid = ANY (ARRAY(SELECT row FROM past))
), noted AS (
    UPDATE gnomon.transition_order
    SET forgotten = (SELECT max(xact) FROM past)
    WHERE forgotten < (SELECT max(xact) FROM past)
)
SELECT count(*) AS removed, max(at) AS reached FROM past
