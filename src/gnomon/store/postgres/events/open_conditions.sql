-- The conditions of these kinds ($1) that were told, and not their ends; locked, so that each end is told
-- once.
SELECT kind, tenant_id, key, event_id, began_at, detail
FROM gnomon.condition
WHERE kind = ANY ($1::text[])
ORDER BY kind, tenant_id, key
FOR UPDATE
