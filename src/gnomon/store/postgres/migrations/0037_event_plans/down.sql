DROP FUNCTION IF EXISTS gnomon.tenant_events_after(text, bigint, bigint, integer);
DROP FUNCTION IF EXISTS gnomon.events_after(bigint, bigint, integer);
DROP INDEX IF EXISTS gnomon.event_tenant_order;
CREATE OR REPLACE FUNCTION gnomon.number_events(p_most integer) RETURNS integer
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
