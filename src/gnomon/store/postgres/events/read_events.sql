-- Events of everybody in their order, after the number $1, at most $2; beside each, which numbers there
-- are. One row without an event where there is none to read.
SELECT o.forgotten, o.last, e.*
FROM gnomon.event_order AS o
LEFT JOIN LATERAL (
    SELECT {events} FROM gnomon.events_after($1::bigint, o.last, $2::integer)
) AS e ON true
ORDER BY e.number
