-- Give everything that the superuser owns in this database to the role `gnomon`. (REASSIGN OWNED
-- refuses the first role of a cluster, which owns the system's own objects too.)
DO $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        WITH schema AS (
            SELECT oid, nspname, nspowner FROM pg_namespace
            WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
        ), extension_member AS (
            SELECT classid, objid FROM pg_depend WHERE deptype = 'e'
        )
        SELECT format('ALTER SCHEMA %I OWNER TO gnomon', nspname) FROM schema WHERE nspowner = 10
        UNION ALL
        SELECT format('ALTER TABLE %I.%I OWNER TO gnomon', s.nspname, c.relname)
        FROM pg_class AS c JOIN schema AS s ON s.oid = c.relnamespace
        WHERE c.relowner = 10 AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
            AND ('pg_class'::regclass, c.oid) NOT IN (SELECT * FROM extension_member)
            -- A column's own sequence goes with its table.
            AND NOT EXISTS (
                SELECT FROM pg_depend AS d
                WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND c.relkind = 'S'
                    AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
            )
        UNION ALL
        SELECT format('ALTER ROUTINE %s OWNER TO gnomon', p.oid::regprocedure)
        FROM pg_proc AS p JOIN schema AS s ON s.oid = p.pronamespace
        WHERE p.proowner = 10
            AND ('pg_proc'::regclass, p.oid) NOT IN (SELECT * FROM extension_member)
        UNION ALL
        SELECT format('ALTER TYPE %I.%I OWNER TO gnomon', s.nspname, t.typname)
        FROM pg_type AS t JOIN schema AS s ON s.oid = t.typnamespace
        LEFT JOIN pg_class AS c ON c.oid = t.typrelid
        -- Those of tables, arrays and ranges go with what they are of.
        WHERE t.typowner = 10 AND (t.typtype IN ('e', 'd', 'r') OR c.relkind = 'c')
            AND ('pg_type'::regclass, t.oid) NOT IN (SELECT * FROM extension_member)
    LOOP
        EXECUTE statement;
    END LOOP;
END
$$;
