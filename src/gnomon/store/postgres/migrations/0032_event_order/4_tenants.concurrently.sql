-- The events of a tenant in their order.
CREATE INDEX CONCURRENTLY event_tenant_number ON gnomon.event (tenant_id, number) WHERE number IS NOT NULL;
