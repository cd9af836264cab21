-- The keys of all that runs in a node's name.
SELECT tenant_id, id FROM gnomon.task WHERE state = 1 AND node = $1
