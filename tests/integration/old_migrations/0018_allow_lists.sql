-- What a tenant, or a key, is held to: Python functions by name (`billing.*`: by how it begins), and
-- hosts (`*.example.com`: those below; `api.example.com:8443`: on a port). Null: all; empty: none.
ALTER TABLE gnomon.tenant
    ADD COLUMN functions text[],
    ADD COLUMN hosts     text[];
ALTER TABLE gnomon.api_key
    ADD COLUMN functions text[],
    ADD COLUMN hosts     text[],
    ADD COLUMN made_by   uuid;  -- the key that it was made with; it may be gone
CREATE INDEX api_key_made_by ON gnomon.api_key (tenant_id, made_by) WHERE made_by IS NOT NULL;
