DROP FUNCTION gnomon.admit(text[], integer[], bigint[], integer[], boolean, integer);
DROP FUNCTION gnomon.counted(gnomon.tenant_room, bigint, bigint, timestamptz);
DROP FUNCTION gnomon.hold_room(text);
DROP FUNCTION gnomon.scheduled_tasks(text);
DROP TRIGGER distrust_room ON gnomon.tenant;
DROP FUNCTION gnomon.distrust_room();
DROP TABLE gnomon.tenant_room;
