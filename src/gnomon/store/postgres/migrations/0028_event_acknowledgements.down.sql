DROP INDEX gnomon.event_open;
REVOKE UPDATE (acknowledged_at, acknowledged_by, note) ON gnomon.event FROM gnomon_tenant;
ALTER TABLE gnomon.event DROP COLUMN acknowledged_at, DROP COLUMN acknowledged_by, DROP COLUMN note;
