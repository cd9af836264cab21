-- How many live keys a tenant has; null: the operators.
SELECT count(*)
FROM gnomon.api_key
WHERE (tenant_id = $1 OR ($1::text IS NULL AND tenant_id IS NULL))
    AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > gnomon.now())
