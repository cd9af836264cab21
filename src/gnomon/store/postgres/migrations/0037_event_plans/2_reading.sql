-- Events of everybody in their order, after a number and up to another. There is one possible plan: in
-- the order of an index.
CREATE FUNCTION gnomon.events_after(p_after bigint, p_until bigint, p_most integer)
    RETURNS SETOF gnomon.event
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
AS $$
BEGIN
RETURN QUERY
SELECT e.*
FROM gnomon.event AS e
WHERE e.number > p_after AND e.number <= p_until
ORDER BY e.number
LIMIT p_most;
END
$$;

-- The same of one tenant, by the index event_tenant_order.
CREATE FUNCTION gnomon.tenant_events_after(
    p_tenant_id text, p_after bigint, p_until bigint, p_most integer
)
    RETURNS SETOF gnomon.event
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
AS $$
BEGIN
RETURN QUERY
SELECT e.*
FROM gnomon.event AS e
WHERE e.tenant_id = p_tenant_id AND e.number IS NOT NULL
  AND CASE WHEN e.number IS NOT NULL THEN e.number END > p_after
  AND CASE WHEN e.number IS NOT NULL THEN e.number END <= p_until
ORDER BY CASE WHEN e.number IS NOT NULL THEN e.number END
LIMIT p_most;
END
$$;

-- As before (0032), but that it finds what has no number by the index event_unnumbered alone, and gives
-- the numbers by one probe each.
CREATE OR REPLACE FUNCTION gnomon.number_events(p_most integer) RETURNS integer
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
    SET enable_hashjoin = off SET enable_mergejoin = off
    AS $$
DECLARE
    v_last  bigint;
    v_given integer;
BEGIN
    -- In an order, which is that of one index.
    PERFORM FROM gnomon.event WHERE number IS NULL ORDER BY id LIMIT 1;
    IF NOT FOUND THEN
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
