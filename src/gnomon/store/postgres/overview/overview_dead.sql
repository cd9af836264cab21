-- Dead letters that nobody has resolved, $1 at the most.
SELECT count(*) AS tasks
FROM (SELECT id FROM gnomon.task WHERE state = 4 ORDER BY tenant_id, id LIMIT $1) AS t
