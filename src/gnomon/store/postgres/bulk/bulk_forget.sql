-- Remove ended bulk operations of a tenant beyond its newest $2.
DELETE FROM gnomon.bulk_operation
WHERE tenant_id = $1 AND status <> 'RUNNING' AND id <= (
    SELECT id FROM gnomon.bulk_operation WHERE tenant_id = $1 ORDER BY id DESC OFFSET $2 LIMIT 1
)
