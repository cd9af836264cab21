-- Events that have no number yet; mostly none.
CREATE INDEX CONCURRENTLY event_unnumbered ON gnomon.event (id) WHERE number IS NULL;
