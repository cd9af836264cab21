-- How far transitions can be streamed: the latest transaction of which one was removed; the first that is
-- under way; and the first that has not begun.
SELECT o.forgotten, pg_snapshot_xmin(s.now)::text::bigint AS horizon,
    pg_snapshot_xmax(s.now)::text::bigint AS ahead
FROM gnomon.transition_order AS o, (SELECT pg_current_snapshot() AS now OFFSET 0) AS s
