-- Background work that fails for everybody. What its errors say may be about any tenant.
SELECT t.chore, t.name AS node, t.since, t.sqlstate
FROM gnomon.trouble AS t
WHERE t.tenant_id = '' AND t.known_until > gnomon.now()
ORDER BY t.since
LIMIT 10
