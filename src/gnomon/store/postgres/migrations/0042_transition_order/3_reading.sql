-- Transitions of a tenant after a place, of transactions before p_until. There is one possible plan: in the
-- order of an index.
CREATE FUNCTION gnomon.transitions_after(
    p_tenant_id text, p_xact bigint, p_place bigint, p_until bigint, p_most integer
)
    RETURNS SETOF gnomon.transition
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
AS $$
BEGIN
RETURN QUERY
SELECT t.*
FROM gnomon.transition AS t
WHERE t.tenant_id = p_tenant_id AND (t.xact, t.place) > (p_xact, p_place) AND t.xact < p_until
ORDER BY t.xact, t.place
LIMIT p_most;
END
$$;
