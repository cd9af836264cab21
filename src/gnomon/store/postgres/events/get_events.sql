-- Events by their ids ($2) of a tenant ($1), newest first.
SELECT {events}
FROM gnomon.event
WHERE tenant_id = $1 AND id = ANY ($2::uuid[])
ORDER BY id DESC
