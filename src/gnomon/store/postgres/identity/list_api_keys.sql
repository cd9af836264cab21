-- Keys of a tenant (null: of the operators), newest first, after a cursor.
SELECT *
FROM gnomon.api_key
WHERE (tenant_id = $1 OR ($1::text IS NULL AND tenant_id IS NULL)) AND id < $2
ORDER BY id DESC
LIMIT $3
