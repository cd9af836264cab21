-- Ask for the cancelling of running tasks that this transaction has locked.
UPDATE gnomon.task SET cancel_requested = true
WHERE tenant_id = $1 AND id = ANY ($2::uuid[]) AND state = 1
RETURNING id
