-- Bulk operations under way, of all tenants, in their order: at most $2 after the id $1.
SELECT tenant_id, id FROM gnomon.bulk_operation
WHERE status = 'RUNNING' AND id > $1
ORDER BY id
LIMIT $2
