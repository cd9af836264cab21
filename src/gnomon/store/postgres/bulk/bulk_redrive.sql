-- Run dead letters that this transaction has locked again (DEAD, REDRIVE -> WAITING): now, each with its
-- whole retry budget.
UPDATE gnomon.task AS t
SET state = 0,
    due_at = m.now,
    expires_at = CASE WHEN t.expires_at > m.now THEN t.expires_at END,
    retries_left = coalesce((t.retry_policy ->> 'max_retries')::integer, 3),
    losses = 0,
    fingerprint = NULL
FROM (SELECT gnomon.now() AS now) AS m
WHERE t.tenant_id = $1 AND t.id = ANY ($2::uuid[])
RETURNING t.id, t.due_at
