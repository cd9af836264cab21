-- Worker sessions and gateways are rows of the roster, too. The version before takes them for nodes:
-- it gives sessions shards that they do not serve, until it is replaced.
ALTER TABLE gnomon.node
    ADD COLUMN kind smallint NOT NULL DEFAULT 0,          -- 0 node, 1 gateway, 2 session
    ADD COLUMN tenant_id text COLLATE "C",                -- of a session; null for all others, as are:
    ADD COLUMN secret bytea,                              -- the hash of what its worker must know
    ADD COLUMN key_id uuid,                               -- the key that it was opened with, if any
    ADD COLUMN gateway uuid,                              -- which claims for it
    ADD COLUMN gateways uuid[] NOT NULL DEFAULT '{}',     -- whose permits its tasks may have
    ADD COLUMN draining boolean NOT NULL DEFAULT false,   -- its worker is told to take nothing more
    ADD COLUMN about jsonb;                               -- labels and client, for people
GRANT SELECT (kind) ON gnomon.node TO gnomon_tenant;
-- A tenant sees nodes and gateways by their names, and of sessions its own.
ALTER TABLE gnomon.node ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON gnomon.node USING (true);
CREATE POLICY tenant ON gnomon.node AS RESTRICTIVE TO gnomon_tenant
    USING (kind <> 2 OR tenant_id = current_setting('gnomon.tenant', true));
