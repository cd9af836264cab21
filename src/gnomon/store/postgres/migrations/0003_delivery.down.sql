DROP FUNCTION gnomon.complete_run(text, uuid, bigint, uuid, json);
ALTER TABLE gnomon.task DROP COLUMN begun;
