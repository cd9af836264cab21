DROP FUNCTION gnomon.in_a_pool(jsonb, text, smallint, text, text);
ALTER TABLE gnomon.node DROP COLUMN serves;
DROP TABLE gnomon.breaker;
