DROP FUNCTION gnomon.admit(text[], integer[], bigint[], integer[], boolean, integer);
DROP FUNCTION gnomon.scheduled_tasks(text);
DROP TRIGGER distrust_room ON gnomon.tenant;
DROP FUNCTION gnomon.distrust_room();
DROP TABLE gnomon.tenant_room;
