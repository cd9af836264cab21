-- Give numbers to committed events that have none, at most $1 at once.
SELECT gnomon.number_events($1::integer)
