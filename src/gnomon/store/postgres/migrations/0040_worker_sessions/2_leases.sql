-- Permits of a dead gateway are kept while anything runs that it claimed for a session.
CREATE OR REPLACE FUNCTION gnomon.drop_dead_leases(p_bucket bigint) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_node uuid;
BEGIN
    FOR v_node IN
        SELECT l.node FROM gnomon.limit_lease AS l
        WHERE l.bucket = p_bucket
          AND NOT EXISTS (SELECT FROM gnomon.node AS n WHERE n.incarnation = l.node AND NOT n.dead)
    LOOP
        PERFORM FROM gnomon.node AS n WHERE n.incarnation = v_node FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND AND EXISTS (SELECT FROM gnomon.node WHERE incarnation = v_node);
        DELETE FROM gnomon.limit_lease AS l
        WHERE l.bucket = p_bucket AND l.node = v_node
          AND NOT EXISTS (SELECT FROM gnomon.task AS t WHERE t.state = 1 AND t.node = v_node)
          AND NOT EXISTS (
              SELECT FROM gnomon.node AS s
              CROSS JOIN LATERAL (
                  SELECT FROM gnomon.task AS t WHERE t.state = 1 AND t.node = s.incarnation LIMIT 1
              ) AS t
              WHERE s.kind = 2 AND v_node = ANY (s.gateways)
          );
    END LOOP;
END
$$;
