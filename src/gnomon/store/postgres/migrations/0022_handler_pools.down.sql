DROP FUNCTION gnomon.read_flows(
    text, smallint, bigint, integer, text[], smallint[], bigint[], timestamptz[]
);
DROP FUNCTION gnomon.read_overdue(
    smallint[], float8, integer, integer, integer, boolean, text[], smallint[], text[], text[], boolean, text[]
);
DROP FUNCTION gnomon.read_behind(
    smallint[], timestamptz[], uuid[], timestamptz[], timestamptz, integer, boolean, text[], smallint[], text[], text[], boolean, text[], jsonb[]
);
DROP FUNCTION gnomon.read_ahead(
    smallint[], timestamptz[], uuid[], timestamptz, integer, boolean, text[], smallint[], text[], text[], boolean, text[], jsonb[]
);
DROP FUNCTION gnomon.in_a_pool(jsonb, text, smallint, text, text, boolean);
DROP FUNCTION gnomon.is_by_handler(json);
