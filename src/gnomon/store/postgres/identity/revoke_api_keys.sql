-- Revoke a key of a tenant (null: of the operators); with $3 also the keys that were created with it,
-- and with those. Keys that have ended stay as they are, but not those created with them. Returns the
-- revoked ones.
WITH RECURSIVE made AS (
    SELECT id FROM gnomon.api_key WHERE tenant_id IS NOT DISTINCT FROM $1 AND id = $2
    UNION
    SELECT k.id
    FROM made AS m
    JOIN gnomon.api_key AS k ON k.tenant_id IS NOT DISTINCT FROM $1 AND k.made_by = m.id
    WHERE $3::boolean
)
UPDATE gnomon.api_key AS k
SET revoked_at = gnomon.now()
FROM made AS m
WHERE k.tenant_id IS NOT DISTINCT FROM $1 AND k.id = m.id AND k.revoked_at IS NULL
RETURNING k.id
