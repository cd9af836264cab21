-- A version of a workflow, the newest where $3 is null.
SELECT name, version, definition, created_at, created_by
FROM gnomon.workflow
WHERE tenant_id = $1 AND name = $2 AND ($3::integer IS NULL OR version = $3)
ORDER BY version DESC
LIMIT 1
