-- Named filters of the list of tasks, shared by the people of a tenant. The version before neither
-- reads nor writes them.
CREATE TABLE gnomon.saved_view (
    tenant_id  text COLLATE "C" NOT NULL REFERENCES gnomon.tenant (id) ON DELETE CASCADE,
    name       text COLLATE "C" NOT NULL,
    filter     json NOT NULL,
    columns    text[] NOT NULL,  -- of the page of tasks, in their order; empty: as it is without
    created_by text,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, name)
);
SELECT gnomon.wall('gnomon.saved_view', 'SELECT, INSERT, UPDATE, DELETE');
