-- Breakers that are open, by node, for those who ask why a task waits. Nodes do not read it.
CREATE TABLE gnomon.breaker (
    tenant_id text COLLATE "C" NOT NULL,
    host      text,                     -- null: all that the tenant runs
    node      uuid NOT NULL REFERENCES gnomon.node (incarnation) ON DELETE CASCADE,
    until     timestamptz NOT NULL,     -- when the next task is tried
    UNIQUE NULLS NOT DISTINCT (tenant_id, host, node)
);
CREATE INDEX breaker_node ON gnomon.breaker (node);
SELECT gnomon.wall('gnomon.breaker', 'SELECT');
