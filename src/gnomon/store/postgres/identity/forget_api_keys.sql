-- Delete ended keys of a tenant (null: of the operators), but for so many of the newest ($2), and for
-- those that live ones were created with. Keys created with a deleted key pass to the key that created
-- that one: a revocation that cascades still reaches them, and a chain of keys, each created with the one
-- before it, does not keep all of them.
WITH RECURSIVE going AS MATERIALIZED (
    SELECT k.id, k.made_by
    FROM gnomon.api_key AS k
    WHERE k.id IN (
            SELECT id
            FROM gnomon.api_key
            WHERE (tenant_id = $1 OR ($1::text IS NULL AND tenant_id IS NULL))
                AND (revoked_at IS NOT NULL OR expires_at <= gnomon.now())
            ORDER BY id DESC
            OFFSET $2
        )
        AND NOT EXISTS (
            SELECT FROM gnomon.api_key AS made
            WHERE made.tenant_id IS NOT DISTINCT FROM $1 AND made.made_by = k.id
                AND made.revoked_at IS NULL
                AND (made.expires_at IS NULL OR made.expires_at > gnomon.now())
        )
), passing AS (
    SELECT k.id, g.made_by AS maker
    FROM going AS g
    JOIN gnomon.api_key AS k ON k.tenant_id IS NOT DISTINCT FROM $1 AND k.made_by = g.id
    WHERE k.id NOT IN (SELECT id FROM going)
    UNION
    SELECT p.id, g.made_by FROM passing AS p JOIN going AS g ON g.id = p.maker
), passed AS (
    UPDATE gnomon.api_key AS k
    SET made_by = p.maker
    FROM passing AS p
    WHERE k.tenant_id IS NOT DISTINCT FROM $1 AND k.id = p.id
        AND NOT EXISTS (SELECT FROM going AS g WHERE g.id = p.maker)
)
DELETE FROM gnomon.api_key AS k USING going AS g
WHERE k.tenant_id IS NOT DISTINCT FROM $1 AND k.id = g.id
