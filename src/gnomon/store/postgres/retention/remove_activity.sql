-- Activity past its time, at most $3 rows at once: by the minute before $1, by the hour before $2.
WITH past AS MATERIALIZED (
    (SELECT ctid AS place FROM gnomon.activity WHERE span = 1 AND starts_at < $1
     ORDER BY span, starts_at LIMIT $3::integer)
    UNION ALL
    (SELECT ctid FROM gnomon.activity WHERE span = 60 AND starts_at < $2
     ORDER BY span, starts_at LIMIT $3::integer)
    LIMIT $3::integer
)
DELETE FROM gnomon.activity WHERE ctid = ANY (ARRAY(SELECT place FROM past))
