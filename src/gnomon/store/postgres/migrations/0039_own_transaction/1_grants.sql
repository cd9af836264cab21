-- Which database roles may submit by gnomon.submit, and for which tenant. A role is that of the login
-- (session_user), which nobody can take on without its password. task_types, functions, hosts: as those
-- of an API key.
CREATE TABLE gnomon.role_grant (
    role       name PRIMARY KEY,
    tenant_id  text COLLATE "C" NOT NULL REFERENCES gnomon.tenant (id) ON DELETE CASCADE,
    task_types text[],
    functions  text[],
    hosts      text[],
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
SELECT gnomon.wall('gnomon.role_grant', 'SELECT');

-- The settings of the API that submissions are held to, so that gnomon.submit can hold them to the same.
-- Every API process writes them when it starts.
CREATE TABLE gnomon.submission_rules (
    one                 boolean PRIMARY KEY DEFAULT true CHECK (one),
    plans               json NOT NULL,    -- the quotas of each plan, by name
    payload_bytes       bigint NOT NULL,  -- the largest payload
    idempotency_seconds float8 NOT NULL   -- for how long a key is kept
);
INSERT INTO gnomon.submission_rules (plans, payload_bytes, idempotency_seconds)
VALUES (
    '{"standard": {"scheduled_tasks": 10000, "submissions_per_second": 500, "payload_bytes": 262144,
                   "stored_bytes": 10737418240},
      "unlimited": {}}',
    262144, 86400
);

-- Submissions by gnomon.submit that quotas and activity do not know of yet. Rows are only ever added and
-- removed: a transaction that stays open makes nobody wait, as one that had changed a counter would. A
-- node adds them up every second.
CREATE TABLE gnomon.uncounted_submission (
    tenant_id text COLLATE "C" NOT NULL,
    at        timestamptz NOT NULL,
    task_type text NOT NULL,
    lane      smallint NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 1
);
CREATE INDEX uncounted_submission_at ON gnomon.uncounted_submission (tenant_id, at);
SELECT gnomon.wall('gnomon.uncounted_submission', 'SELECT');

-- Let a database role submit for a tenant by gnomon.submit. Whoever calls must own the schema.
CREATE FUNCTION gnomon.grant_role(
    role name, tenant text, task_types text[] DEFAULT NULL, functions text[] DEFAULT NULL,
    hosts text[] DEFAULT NULL
) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    INSERT INTO gnomon.role_grant AS g (role, tenant_id, task_types, functions, hosts, created_at)
    VALUES (
        grant_role.role, grant_role.tenant, grant_role.task_types, grant_role.functions,
        grant_role.hosts, gnomon.now()
    )
    ON CONFLICT ON CONSTRAINT role_grant_pkey DO UPDATE
    SET tenant_id = excluded.tenant_id, task_types = excluded.task_types,
        functions = excluded.functions, hosts = excluded.hosts;
    EXECUTE format('GRANT USAGE ON SCHEMA gnomon TO %I', grant_role.role);
    EXECUTE format(
        'GRANT EXECUTE ON FUNCTION gnomon.submit(json, text, text), gnomon.hint(uuid[]),'
        ' gnomon.payload_schema(text), gnomon.complete(text, uuid, bigint, uuid, json) TO %I',
        grant_role.role
    );
END
$$;
REVOKE EXECUTE ON FUNCTION gnomon.grant_role(name, text, text[], text[], text[]) FROM PUBLIC;

-- Take that back. What the role has submitted stays.
CREATE FUNCTION gnomon.revoke_role(role name) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_found boolean;
BEGIN
    DELETE FROM gnomon.role_grant AS g WHERE g.role = revoke_role.role;
    v_found := FOUND;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = revoke_role.role) THEN
        EXECUTE format('REVOKE ALL ON SCHEMA gnomon FROM %I', revoke_role.role);
        EXECUTE format(
            'REVOKE ALL ON FUNCTION gnomon.submit(json, text, text), gnomon.hint(uuid[]),'
            ' gnomon.payload_schema(text), gnomon.complete(text, uuid, bigint, uuid, json) FROM %I',
            revoke_role.role
        );
    END IF;
    RETURN v_found;
END
$$;
REVOKE EXECUTE ON FUNCTION gnomon.revoke_role(name) FROM PUBLIC;

-- As before; but roles that may use the schema must not make triggers of their own tables call it, which
-- would lock the revision for as long as they like.
CREATE OR REPLACE FUNCTION gnomon.revise() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
    AS $$
DECLARE
    present bigint;
BEGIN
    IF TG_TABLE_SCHEMA <> 'gnomon' THEN
        RAISE EXCEPTION 'gnomon.revise is for tables of the schema gnomon'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    UPDATE gnomon.revision SET number = number + 1 RETURNING number INTO present;
    EXECUTE format(
        'INSERT INTO gnomon.revised (tenant, number)
         SELECT DISTINCT %I, $1 FROM changed
         ON CONFLICT (tenant) DO UPDATE SET number = excluded.number', TG_ARGV[0]
    ) USING present;
    RETURN NULL;
END
$$;

-- As before; what came by gnomon.submit counts as well.
CREATE OR REPLACE FUNCTION gnomon.hold_pace(
    tenant text, rate integer, moment OUT timestamptz, pace OUT integer
)
    LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        PERFORM FROM gnomon.tenant_pace AS p WHERE p.tenant_id = tenant FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO gnomon.tenant_pace (tenant_id) VALUES (tenant) ON CONFLICT DO NOTHING;
    END LOOP;
    moment := gnomon.now();
    pace := greatest(0, rate - gnomon.used_pace(tenant, moment));
END
$$;

-- How many tasks of a tenant were stored in the last second, as far as that is committed.
CREATE FUNCTION gnomon.used_pace(tenant text, moment timestamptz) RETURNS integer
    LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    RETURN coalesce((
        SELECT sum(e.number)
        FROM gnomon.tenant_pace AS p CROSS JOIN LATERAL unnest(p.moments, p.numbers) AS e (at, number)
        WHERE p.tenant_id = tenant
          AND e.at > moment - interval '1 second' AND e.at < moment + interval '1 second'
    ), 0) + (
        SELECT count(*) FROM gnomon.uncounted_submission AS u
        WHERE u.tenant_id = tenant
          AND u.at > moment - interval '1 second' AND u.at < moment + interval '1 second'
    );
END
$$;
