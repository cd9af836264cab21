-- All events in their order.
CREATE INDEX CONCURRENTLY event_number ON gnomon.event (number) WHERE number IS NOT NULL;
