-- The finished ones of these tasks, as far as they decide who may remove them. $3 and $4 the lowest and
-- the highest id, for the partitions.
SELECT id, state, task_type, target
FROM gnomon.task_archive
WHERE tenant_id = $1 AND id = ANY ($2::uuid[]) AND id >= $3 AND id <= $4
