-- Remembers the tasks that were made from others. $1 tenants, $2 originals, $3 copies.
INSERT INTO gnomon.task_copy (tenant_id, original, id)
SELECT * FROM unnest($1::text[], $2::uuid[], $3::uuid[])
