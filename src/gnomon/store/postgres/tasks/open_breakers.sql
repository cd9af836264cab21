-- Breakers of a tenant that are open on nodes that are not dead, the last to be tried first.
SELECT n.name AS node, b.host, b.until, b.opened_at, b.calls, b.failures, b.error
FROM gnomon.breaker AS b
JOIN gnomon.node AS n ON n.incarnation = b.node AND NOT n.dead
WHERE b.tenant_id = $1
ORDER BY b.until DESC
LIMIT 1000
