-- Events of a tenant ($1) in their order, after the number $2, at most $3; beside each, which numbers
-- there are. One row without an event where there is none to read.
SELECT o.forgotten, o.last, e.*
FROM gnomon.event_order AS o
LEFT JOIN LATERAL (
    SELECT {events} FROM gnomon.tenant_events_after($1::text, $2::bigint, o.last, $3::integer)
) AS e ON true
ORDER BY e.number
