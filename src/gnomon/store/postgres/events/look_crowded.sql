-- Tenants whose quota ready_tasks is reached in some lane, so that new tasks are refused there.
SELECT c.tenant, max(c.most) AS most
FROM gnomon.crowded_lane AS c
WHERE NOT c.shared
  AND (SELECT r.crowded_at FROM gnomon.revision AS r) > gnomon.now() - interval '15 seconds'
GROUP BY c.tenant
ORDER BY c.tenant
LIMIT $1
