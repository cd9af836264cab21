-- A node whose turn has come, locked; nothing where its task is not BLOCKED or somebody else holds it.
SELECT t.target, t.task_type, t.queue
FROM gnomon.task AS t
WHERE t.tenant_id = $1 AND t.id = $2 AND t.state + 0 = 3
FOR UPDATE SKIP LOCKED
