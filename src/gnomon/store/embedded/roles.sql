-- The roles of the embedded server. Makes what is missing and changes nothing else, so that a
-- cluster whose only role was the superuser `gnomon` is brought to the same state as a new one.
DO $$
BEGIN
    -- The first role of a cluster stays a superuser for good, so it is renamed. No session can
    -- rename the role that it began as: it takes on another one for the moment.
    IF EXISTS (SELECT FROM pg_roles WHERE oid = 10 AND rolname = 'gnomon') THEN
        CREATE ROLE gnomon_renaming SUPERUSER;
        SET SESSION AUTHORIZATION gnomon_renaming;
        ALTER ROLE gnomon RENAME TO gnomon_superuser;
        SET SESSION AUTHORIZATION gnomon_superuser;
        DROP ROLE gnomon_renaming;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'gnomon') THEN
        CREATE ROLE gnomon LOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'gnomon_tenant') THEN
        CREATE ROLE gnomon_tenant NOLOGIN;
    END IF;
    -- Whoever inherits from gnomon_tenant is shown one tenant's rows, and nodes must see all.
    GRANT gnomon_tenant TO gnomon WITH INHERIT FALSE, SET TRUE;
    -- Tasks may be written by SQL of another role, and scanners wait for its open transactions.
    GRANT pg_read_all_stats TO gnomon;
END
$$;
