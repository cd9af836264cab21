-- The keys of all tasks that run on a node.
SELECT tenant_id, id FROM gnomon.task WHERE state = 1 AND node = $1
