-- The events of a tenant in their order, by an expression that no other index answers to: by event_number
-- the events of all tenants would be read for one. Takes the place of event_tenant_number, which the
-- version before reads by.
CREATE INDEX CONCURRENTLY event_tenant_order ON gnomon.event (tenant_id, (number + 0)) WHERE number IS NOT NULL;
