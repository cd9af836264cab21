-- The role stays: other databases of the cluster may use it.
ALTER VIEW gnomon.try RESET (security_invoker);
DO $$
DECLARE
    walled regclass;
BEGIN
    FOR walled IN
        SELECT p.polrelid FROM pg_policy AS p JOIN pg_class AS c ON c.oid = p.polrelid
        WHERE c.relnamespace = 'gnomon'::regnamespace AND p.polname = 'tenant'
    LOOP
        EXECUTE format('DROP POLICY tenant ON %s', walled);
        EXECUTE format('DROP POLICY everybody ON %s', walled);
        EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', walled);
    END LOOP;
END
$$;
REVOKE ALL ON ALL TABLES IN SCHEMA gnomon FROM gnomon_tenant;
REVOKE ALL (incarnation, name, dead) ON gnomon.node FROM gnomon_tenant;
REVOKE ALL ON SCHEMA gnomon FROM gnomon_tenant;
DROP FUNCTION gnomon.wall(regclass, text, name);
