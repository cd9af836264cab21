-- Who has taken note of an event, when, and what they say about it. The version before neither reads
-- nor writes these columns. Few processes write events, and seldom: the index may hold them up.
ALTER TABLE gnomon.event
    ADD COLUMN acknowledged_at timestamptz,
    ADD COLUMN acknowledged_by text,
    ADD COLUMN note text;
GRANT UPDATE (acknowledged_at, acknowledged_by, note) ON gnomon.event TO gnomon_tenant;
-- What nobody has taken note of, without good news (gnomon.model.severity).
CREATE INDEX event_open ON gnomon.event (tenant_id, id)
    WHERE acknowledged_at IS NULL AND kind <> 'breaker.closed';
