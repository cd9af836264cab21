-- Say that a batch, which is held, is cancelled; a chore cancels its members and its callbacks.
UPDATE gnomon.batch
SET state = 2, reason = coalesce(reason, $3), interrupts = interrupts OR $4, step = true,
    closed_at = coalesce(closed_at, gnomon.now())
WHERE tenant_id = $1 AND id = $2
