-- What limiters find in the payload of a live task that this transaction has changed.
UPDATE gnomon.task
SET limit_keys = $3, flow = gnomon.flow_of(task_type, queue, $3, target)
WHERE tenant_id = $1 AND id = $2
RETURNING flow
