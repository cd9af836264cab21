-- The second wall: what the API does for a tenant, it does as a role that owns nothing and that is
-- shown one tenant's rows, whatever a statement forgets to ask for.

-- Roles belong to the whole cluster: another database may have made this one, or be about to.
DO $$
DECLARE
    -- Whoever inherits from the role is behind its wall as well, and the nodes must not be.
    membership constant text := format(
        'GRANT gnomon_tenant TO %I', current_user
    ) || CASE WHEN current_setting('server_version_num')::integer >= 160000
        THEN ' WITH INHERIT FALSE, SET TRUE' ELSE '' END;
    using_it constant text := CASE WHEN current_setting('server_version_num')::integer >= 160000
        THEN 'SET' ELSE 'MEMBER' END;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'gnomon_tenant') THEN
        BEGIN
            CREATE ROLE gnomon_tenant NOLOGIN;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;  -- made meanwhile
        END;
    END IF;
    IF NOT pg_has_role(current_user, 'gnomon_tenant', using_it) THEN
        BEGIN
            EXECUTE membership;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END IF;
EXCEPTION
    WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'the user "%" may not create the role gnomon_tenant, or not take it on', current_user
            USING ERRCODE = 'insufficient_privilege',
                HINT = format(
                    'Let an administrator run: CREATE ROLE gnomon_tenant NOLOGIN; %s;', membership
                );
END
$$;

-- Build the wall of a table, and say what the API may do behind it. Everybody else, be it a node or
-- a user's own transaction, goes on as the table's privileges say.
CREATE FUNCTION gnomon.wall(walled regclass, privileges text, tenant_column name DEFAULT 'tenant_id')
    RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', walled);
    EXECUTE format('CREATE POLICY everybody ON %s USING (true)', walled);
    EXECUTE format(
        'CREATE POLICY tenant ON %s AS RESTRICTIVE TO gnomon_tenant'
        ' USING (%I = current_setting(''gnomon.tenant'', true))',
        walled, tenant_column
    );
    EXECUTE format('GRANT %s ON %s TO gnomon_tenant', privileges, walled);
END
$$;

GRANT USAGE ON SCHEMA gnomon TO gnomon_tenant;
SELECT gnomon.wall('gnomon.task', 'SELECT, INSERT, UPDATE, DELETE');
SELECT gnomon.wall('gnomon.task_archive', 'SELECT, INSERT, DELETE');
SELECT gnomon.wall('gnomon.task_payload', 'SELECT, INSERT, UPDATE, DELETE');
SELECT gnomon.wall('gnomon.execution', 'SELECT, DELETE');
SELECT gnomon.wall('gnomon.idempotency', 'SELECT, INSERT, UPDATE');
SELECT gnomon.wall('gnomon.cron_job', 'SELECT, INSERT, UPDATE, DELETE');
SELECT gnomon.wall('gnomon.occurrence', 'SELECT, INSERT, UPDATE, DELETE');
SELECT gnomon.wall('gnomon.event', 'SELECT');
SELECT gnomon.wall('gnomon.tenant', 'SELECT', 'id');
SELECT gnomon.wall('gnomon.api_key', 'SELECT, INSERT, UPDATE');
SELECT gnomon.wall('gnomon.limiter', 'SELECT, INSERT, UPDATE, DELETE');
SELECT gnomon.wall('gnomon.limit_bucket', 'SELECT');
SELECT gnomon.wall('gnomon.tenant_room', 'SELECT, INSERT, UPDATE');
SELECT gnomon.wall('gnomon.tenant_pace', 'SELECT, INSERT, UPDATE');
SELECT gnomon.wall('gnomon.task_type', 'SELECT, INSERT, UPDATE, DELETE');

-- Starts that limiters have granted are the tenant's whose bucket they are of.
ALTER TABLE gnomon.limit_window ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON gnomon.limit_window USING (true);
CREATE POLICY tenant ON gnomon.limit_window AS RESTRICTIVE TO gnomon_tenant
    USING (EXISTS (SELECT FROM gnomon.limit_bucket AS b WHERE b.id = bucket));
GRANT SELECT ON gnomon.limit_window TO gnomon_tenant;

-- Where a task runs is told to its owner; what else a node serves is not.
GRANT SELECT (incarnation, name, dead) ON gnomon.node TO gnomon_tenant;

-- A view shows what its owner may see, unless it is told otherwise.
ALTER VIEW gnomon.try SET (security_invoker = true);
GRANT SELECT ON gnomon.try TO gnomon_tenant;
