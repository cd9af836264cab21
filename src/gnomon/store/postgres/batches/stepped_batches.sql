-- Batches that something is left to do about, after ($1, $2), $3 at most. The callbacks are those that must
-- end: their turn will never come.
SELECT b.tenant_id, b.id, b.state, b.interrupts, b.reason,
    CASE WHEN b.state > 1 OR b.failed + b.cancelled > 0 THEN b.on_success END AS on_success,
    CASE WHEN b.state > 1 THEN b.on_complete END AS on_complete
FROM gnomon.batch AS b
WHERE b.step AND (b.tenant_id, b.id) > ($1, $2)
ORDER BY b.tenant_id, b.id
LIMIT $3
