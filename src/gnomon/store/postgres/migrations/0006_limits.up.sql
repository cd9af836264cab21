-- Limiters: how many tasks of a tenant may run at once, or start within a time.
CREATE TABLE gnomon.limiter (
    tenant_id   text COLLATE "C" NOT NULL REFERENCES gnomon.tenant (id) ON DELETE CASCADE,
    name        text COLLATE "C" NOT NULL,
    task_type   text,
    queue       text,
    key         text,                   -- a JSON pointer into the payload
    concurrency integer CHECK (concurrency >= 0),
    rate        integer CHECK (rate >= 0),
    per_seconds float8 NOT NULL DEFAULT 1 CHECK (per_seconds > 0),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, name),
    CONSTRAINT limits_something CHECK (concurrency IS NOT NULL OR rate IS NOT NULL)
);
CREATE TRIGGER revise AFTER INSERT OR UPDATE OR DELETE ON gnomon.limiter
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise();
