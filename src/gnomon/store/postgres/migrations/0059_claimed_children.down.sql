DROP FUNCTION gnomon.claim_children(uuid, float8, integer, smallint[], jsonb, text[], uuid[]);
