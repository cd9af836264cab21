-- Keys of a tenant (null: of the operators), newest first, after a cursor. Each in a part of its own, for
-- no index answers to either-or.
SELECT *
FROM (
    (SELECT * FROM gnomon.api_key WHERE tenant_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3)
    UNION ALL
    (SELECT * FROM gnomon.api_key
     WHERE $1::text IS NULL AND tenant_id IS NULL AND id < $2 ORDER BY id DESC LIMIT $3)
) AS keys
ORDER BY id DESC
LIMIT $3
