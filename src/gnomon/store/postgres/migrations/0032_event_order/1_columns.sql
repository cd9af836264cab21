-- The order in which events are read. An event gets its number after its commit, from whoever reads
-- next, and numbers are given by one at a time: see gnomon.number_events. The version before enters
-- events without one, as all do. One that has grown loses its number, and gets another.
ALTER TABLE gnomon.event ADD COLUMN number bigint;

CREATE TABLE gnomon.event_order (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    last      bigint NOT NULL DEFAULT 0,  -- number that was given
    forgotten bigint NOT NULL DEFAULT 0   -- highest number of an event that was removed
);
INSERT INTO gnomon.event_order DEFAULT VALUES;
-- Both are numbers, and the same for everybody. A reader of one tenant's events needs them.
GRANT SELECT (last, forgotten) ON gnomon.event_order TO gnomon_tenant;

-- Conditions that hold, and were told when they began. '*' is the installation.
CREATE TABLE gnomon.condition (
    tenant_id text COLLATE "C" NOT NULL,
    kind      text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,  -- what it is about, among those of its kind
    event_id  uuid NOT NULL,              -- that told its beginning
    began_at  timestamptz NOT NULL,
    detail    json NOT NULL,
    PRIMARY KEY (kind, tenant_id, key)
);
SELECT gnomon.wall('gnomon.condition', 'SELECT');

-- Gives numbers to committed events that have none, at most so many; gives how many. Who gives some
-- holds the row of gnomon.event_order until they can be seen, so lower numbers are seen before higher
-- ones. A row that somebody else has locked keeps nobody waiting: it is left for the next time.
CREATE FUNCTION gnomon.number_events(p_most integer) RETURNS integer
    LANGUAGE plpgsql
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    AS $$
DECLARE
    v_last  bigint;
    v_given integer;
BEGIN
    IF NOT EXISTS (SELECT FROM gnomon.event WHERE number IS NULL) THEN
        RETURN 0;
    END IF;
    SELECT last INTO v_last FROM gnomon.event_order FOR UPDATE;
    -- A statement of its own: it sees what was committed before the lock was had.
    WITH without AS MATERIALIZED (
        SELECT tenant_id, id
        FROM gnomon.event
        WHERE number IS NULL
        ORDER BY id
        LIMIT p_most
        FOR UPDATE SKIP LOCKED
    ), numbered AS MATERIALIZED (
        SELECT tenant_id, id, v_last + row_number() OVER (ORDER BY id, tenant_id) AS number FROM without
    )
    UPDATE gnomon.event AS e
    SET number = n.number
    FROM numbered AS n
    WHERE e.tenant_id = n.tenant_id AND e.id = n.id;
    GET DIAGNOSTICS v_given = ROW_COUNT;
    UPDATE gnomon.event_order SET last = v_last + v_given;
    RETURN v_given;
END
$$;
