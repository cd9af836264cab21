-- Dead letters without a fingerprint, of all tenants, at most $1, locked until the transaction ends.
SELECT tenant_id, id, task_type, last_error
FROM gnomon.task
WHERE state = 4 AND fingerprint IS NULL
ORDER BY id
LIMIT $1::integer
FOR UPDATE SKIP LOCKED
