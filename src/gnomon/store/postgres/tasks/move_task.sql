-- Write a live task that this transaction has locked: its state, its time and its budget.
UPDATE gnomon.task
SET state = $3, due_at = $4, expires_at = $5, retries_left = $6, losses = $7, cancel_requested = $8,
    fingerprint = NULL  -- no state that this leads to is a dead letter's
WHERE tenant_id = $1 AND id = $2
