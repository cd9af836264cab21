-- A bulk operation that is under way, for its next chunk: none where another transaction is at it.
SELECT * FROM gnomon.bulk_operation
WHERE tenant_id = $1 AND id = $2 AND status = 'RUNNING'
FOR UPDATE SKIP LOCKED
