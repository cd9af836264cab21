-- One bulk operation.
SELECT * FROM gnomon.bulk_operation WHERE tenant_id = $1 AND id = $2
