-- Run dead letters that this transaction has locked again (DEAD, REDRIVE -> WAITING): now, each with its
-- whole retry budget.
-- One whose template did not fit takes its turn in its workflow again.
WITH again AS (
    UPDATE gnomon.workflow_node AS n SET step = 1, due_at = NULL
    WHERE n.tenant_id = $1 AND n.task_id = ANY ($2::uuid[]) AND n.template IS NOT NULL
    RETURNING n.task_id
)
UPDATE gnomon.task AS t
SET state = CASE WHEN t.id IN (SELECT task_id FROM again) THEN 3 ELSE 0 END,
    due_at = m.now,
    expires_at = CASE WHEN t.expires_at > m.now THEN t.expires_at END,
    retries_left = coalesce((t.retry_policy ->> 'max_retries')::integer, 3),
    losses = 0,
    fingerprint = NULL
FROM (SELECT gnomon.now() AS now) AS m
WHERE t.tenant_id = $1 AND t.id = ANY ($2::uuid[])
RETURNING t.id, t.due_at
