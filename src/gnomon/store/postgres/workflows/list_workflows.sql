-- The newest version of each workflow of a tenant, by name.
SELECT DISTINCT ON (name) name, version, NULL::json AS definition, created_at, created_by
FROM gnomon.workflow
WHERE tenant_id = $1
ORDER BY name, version DESC
