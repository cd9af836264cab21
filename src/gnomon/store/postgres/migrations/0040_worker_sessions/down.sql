ALTER TABLE gnomon.api_key DROP COLUMN IF EXISTS queues;
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
          AND NOT EXISTS (SELECT FROM gnomon.task AS t WHERE t.state = 1 AND t.node = v_node);
    END LOOP;
END
$$;
DROP POLICY IF EXISTS tenant ON gnomon.node;
DROP POLICY IF EXISTS everybody ON gnomon.node;
ALTER TABLE gnomon.node DISABLE ROW LEVEL SECURITY;
ALTER TABLE gnomon.node
    DROP COLUMN IF EXISTS kind,
    DROP COLUMN IF EXISTS tenant_id,
    DROP COLUMN IF EXISTS secret,
    DROP COLUMN IF EXISTS key_id,
    DROP COLUMN IF EXISTS gateway,
    DROP COLUMN IF EXISTS gateways,
    DROP COLUMN IF EXISTS draining,
    DROP COLUMN IF EXISTS about;
