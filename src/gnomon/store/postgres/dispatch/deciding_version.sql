-- Which version of an app decides on what it declares: of those that have a living worker, the one
-- that was first seen last. $1 the app, $2 its tenant.
SELECT serves #>> '{app,version}' AS version
FROM gnomon.node
WHERE serves #>> '{app,name}' = $1 AND serves #>> '{app,tenant_id}' = $2
GROUP BY 1
HAVING bool_or(NOT dead)
ORDER BY min(started_at) DESC, 1
LIMIT 1
