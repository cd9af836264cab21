-- Those of these tasks that are still BLOCKED. $1 tenant, $2 ids.
SELECT t.tenant_id, t.id AS task_id FROM gnomon.task AS t
WHERE t.tenant_id = $1 AND t.id = ANY ($2::uuid[]) AND t.state + 0 = 3
ORDER BY t.id
