-- Let retries that this transaction has locked start now.
UPDATE gnomon.task AS t
SET due_at = least(t.due_at, m.now),
    expires_at = CASE WHEN t.expires_at > m.now THEN t.expires_at END
FROM (SELECT gnomon.now() AS now) AS m
WHERE t.tenant_id = $1 AND t.id = ANY ($2::uuid[])
RETURNING t.id, t.due_at
