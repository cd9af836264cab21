-- Remove service levels of a tenant ($1), at most $2 at once.
DELETE FROM gnomon.service_level
WHERE ctid = ANY (ARRAY(SELECT ctid FROM gnomon.service_level WHERE tenant_id = $1 LIMIT $2))
