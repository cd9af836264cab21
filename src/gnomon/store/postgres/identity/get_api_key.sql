-- One key of a tenant (null: of the operators), and whether it can still be used.
SELECT
    *,
    gnomon.now() AS now,
    revoked_at IS NULL AND (expires_at IS NULL OR expires_at > gnomon.now()) AS live
FROM gnomon.api_key
WHERE tenant_id IS NOT DISTINCT FROM $1 AND id = $2
