-- Webhook secrets: what the calls of a tenant are signed with, so that no other tenant's call passes
-- for one of them. No CHECK here: its error would show the whole row, to a log.
CREATE TABLE gnomon.webhook_secret (
    id           uuid PRIMARY KEY,
    tenant_id    text COLLATE "C" NOT NULL REFERENCES gnomon.tenant (id) ON DELETE CASCADE,
    host         text COLLATE "C",      -- whose calls it signs; null: of all hosts without their own
    scheme       text NOT NULL,         -- as in the header webhook-signature: v1, v1a
    secret       text NOT NULL,         -- whsec_... or whsk_...; empty once it is revoked
    public_key   text,                  -- whpk_... of v1a
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by   text,
    shared_until timestamptz,           -- of a host's: until then the tenant's sign beside it
    expires_at   timestamptz,
    revoked_at   timestamptz
);
CREATE INDEX webhook_secret_tenant ON gnomon.webhook_secret (tenant_id);
SELECT gnomon.wall('gnomon.webhook_secret', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TRIGGER revise_inserted AFTER INSERT ON gnomon.webhook_secret REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('tenant_id');
CREATE TRIGGER revise_updated AFTER UPDATE ON gnomon.webhook_secret REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('tenant_id');
CREATE TRIGGER revise_deleted AFTER DELETE ON gnomon.webhook_secret REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('tenant_id');

-- A v1 secret of 366 random bits, hashed to 256. Made here, it is in no statement, and in no log of
-- statements.
CREATE FUNCTION gnomon.new_webhook_secret() RETURNS text
    LANGUAGE sql VOLATILE
    AS $$
SELECT 'whsec_' || encode(
    sha256(
        uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
    ),
    'base64'
)
$$;

-- A tenant has a secret from its first moment, however it was made: no node need make one, and no
-- two nodes can make two.
CREATE FUNCTION gnomon.make_webhook_secret() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO gnomon.webhook_secret (id, tenant_id, scheme, secret, created_at)
    VALUES (gen_random_uuid(), NEW.id, 'v1', gnomon.new_webhook_secret(), gnomon.now());
    RETURN NULL;
END
$$;
CREATE TRIGGER make_webhook_secret AFTER INSERT ON gnomon.tenant
    FOR EACH ROW EXECUTE FUNCTION gnomon.make_webhook_secret();

-- The tenant `default` gets its own from the first process that starts, which may know the secret
-- that was in its settings.
INSERT INTO gnomon.webhook_secret (id, tenant_id, scheme, secret, created_at)
SELECT gen_random_uuid(), t.id, 'v1', gnomon.new_webhook_secret(), gnomon.now()
FROM gnomon.tenant AS t
WHERE t.id <> 'default';
