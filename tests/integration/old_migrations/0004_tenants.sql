-- Tenants, their API keys, the schemas of their payloads, and a number that tells of changes.

-- Grows with every change of what processes keep in memory about tenants: they look at it twice a
-- second, and read the rest only when it has grown.
CREATE TABLE gnomon.revision (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    number bigint NOT NULL DEFAULT 0
);
INSERT INTO gnomon.revision DEFAULT VALUES;

-- SECURITY DEFINER: whoever may change a tenant's things need not be able to change this number.
CREATE FUNCTION gnomon.revise() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
    AS $$
BEGIN
    UPDATE gnomon.revision SET number = number + 1;
    RETURN NULL;
END
$$;

-- A tenant without a row here has no quotas and the weight 1: only what is made by plain SQL.
CREATE TABLE gnomon.tenant (
    id         text COLLATE "C" PRIMARY KEY
               CONSTRAINT id_is_a_name CHECK (id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    plan       text NOT NULL DEFAULT 'standard',
    weight     real NOT NULL DEFAULT 1 CHECK (weight > 0),
    quotas     json NOT NULL DEFAULT '{}',  -- what differs from the plan; null lifts a quota
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO gnomon.tenant (id, plan) VALUES ('default', 'unlimited');
CREATE TRIGGER revise AFTER INSERT OR UPDATE OR DELETE ON gnomon.tenant
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise();

-- The key itself is shown once and kept nowhere: it has so many random bits that its SHA-256 is
-- as good as any slower hash.
CREATE TABLE gnomon.api_key (
    id           uuid PRIMARY KEY,
    tenant_id    text COLLATE "C" NOT NULL REFERENCES gnomon.tenant (id) ON DELETE CASCADE,
    name         text COLLATE "C" NOT NULL,
    hash         bytea NOT NULL UNIQUE,
    hint         text NOT NULL,         -- its first characters, for recognising it
    roles        text[] NOT NULL,
    task_types   text[],                -- that it may submit; null: all
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by   text,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz            -- within a minute
);
CREATE INDEX api_key_tenant ON gnomon.api_key (tenant_id, id);

-- What is known of a tenant's task types. schema: a JSON Schema that payloads must satisfy.
CREATE TABLE gnomon.task_type (
    tenant_id  text COLLATE "C" NOT NULL REFERENCES gnomon.tenant (id) ON DELETE CASCADE,
    name       text COLLATE "C" NOT NULL,
    schema     json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, name)
);
CREATE TRIGGER revise AFTER INSERT OR UPDATE OR DELETE ON gnomon.task_type
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise();
