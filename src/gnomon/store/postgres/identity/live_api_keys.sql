-- Live keys of one name, oldest first, of a tenant (null: of the operators).
SELECT *
FROM gnomon.api_key
WHERE (tenant_id = $1 OR ($1::text IS NULL AND tenant_id IS NULL))
    AND name = $2
    AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > gnomon.now())
ORDER BY id
