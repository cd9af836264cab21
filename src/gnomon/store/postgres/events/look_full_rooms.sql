-- Tenants that have been refused tasks within $1 seconds, because their quota scheduled_tasks is reached:
-- no room is left, and somebody has counted again.
SELECT tenant_id, max(quota) AS quota
FROM gnomon.tenant_room
GROUP BY tenant_id
HAVING sum(room) <= 0 AND max(quota) IS NOT NULL
   AND max(counted_at) > gnomon.now() - make_interval(secs => $1::float8)
ORDER BY tenant_id
LIMIT $2
