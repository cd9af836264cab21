-- End a key at once; with $3 also the keys that were made with it, and with those. Those that have
-- ended stay as they are, but not what was made with them. Gives those that were ended.
WITH RECURSIVE made AS (
    SELECT id FROM gnomon.api_key WHERE tenant_id = $1 AND id = $2
    UNION
    SELECT k.id
    FROM made AS m
    JOIN gnomon.api_key AS k ON k.tenant_id = $1 AND k.made_by = m.id
    WHERE $3::boolean
)
UPDATE gnomon.api_key AS k
SET revoked_at = gnomon.now()
FROM made AS m
WHERE k.tenant_id = $1 AND k.id = m.id AND k.revoked_at IS NULL
RETURNING k.id
