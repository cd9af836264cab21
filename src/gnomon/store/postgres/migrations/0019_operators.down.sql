DELETE FROM gnomon.api_key WHERE tenant_id IS NULL;
DROP INDEX gnomon.api_key_made_by;
CREATE INDEX api_key_made_by ON gnomon.api_key (tenant_id, made_by) WHERE made_by IS NOT NULL;
ALTER TABLE gnomon.api_key DROP CONSTRAINT operators_have_no_tenant;
ALTER TABLE gnomon.api_key ALTER COLUMN tenant_id SET NOT NULL;
