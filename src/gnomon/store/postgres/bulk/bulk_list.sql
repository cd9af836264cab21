-- A page of bulk operations, newest first. $2 older than this id, $3 at most.
SELECT * FROM gnomon.bulk_operation
WHERE tenant_id = $1 AND id < $2
ORDER BY id DESC
LIMIT $3
