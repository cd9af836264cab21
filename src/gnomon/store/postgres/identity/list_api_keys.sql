-- A tenant's keys, newest first, from a place on.
SELECT *
FROM gnomon.api_key
WHERE tenant_id = $1 AND id < $2
ORDER BY id DESC
LIMIT $3
