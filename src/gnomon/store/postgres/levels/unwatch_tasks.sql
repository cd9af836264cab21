-- Watch these tasks no longer. $1/$2 the keys, locked by this transaction.
DELETE FROM gnomon.watched_task AS w
USING unnest($1::text[], $2::uuid[]) AS k (tenant_id, task_id)
WHERE w.tenant_id = k.tenant_id AND w.task_id = k.task_id
