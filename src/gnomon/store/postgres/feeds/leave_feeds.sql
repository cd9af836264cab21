-- Remove the feeds of tenants that are no more.
UPDATE gnomon.feed AS f SET removed_at = gnomon.now()
WHERE f.removed_at IS NULL AND NOT EXISTS (SELECT FROM gnomon.tenant AS t WHERE t.id = f.tenant_id)
