-- The transitions of a tenant in the order of the stream.
CREATE INDEX CONCURRENTLY transition_tenant_order ON gnomon.transition (tenant_id, xact, place);
