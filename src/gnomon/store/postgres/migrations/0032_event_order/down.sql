DROP FUNCTION gnomon.number_events(integer);
DROP TABLE gnomon.condition;
DROP TABLE gnomon.event_order;
DROP INDEX IF EXISTS gnomon.event_tenant_number;
DROP INDEX IF EXISTS gnomon.event_number;
DROP INDEX IF EXISTS gnomon.event_unnumbered;
ALTER TABLE gnomon.event DROP COLUMN number;
