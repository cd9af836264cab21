-- Transitions of tenants ($1), each after a place ($2 transaction, $3 place in it), at most $4 of each; of
-- transactions that ended before all that are under way had begun, so that none is committed before them
-- any more. Beside each, which of the readers it is for (from 1 on) and up to where transitions are kept
-- and known. One row without a transition for a reader for whom there is none.
SELECT r.reader, o.forgotten, s.horizon, t.tenant_id, t.xact, t.place, t.task_id, t.task_type, t.number, t.at,
    t.from_state, t.to_state, t.attempt, t.fence, t.node
FROM gnomon.transition_order AS o
CROSS JOIN (
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS horizon OFFSET 0
) AS s
CROSS JOIN unnest($1::text[], $2::bigint[], $3::bigint[])
    WITH ORDINALITY AS r (tenant_id, xact, place, reader)
LEFT JOIN LATERAL gnomon.transitions_after(r.tenant_id, r.xact, r.place, s.horizon, $4::integer) AS t ON true
ORDER BY r.reader, t.xact, t.place
