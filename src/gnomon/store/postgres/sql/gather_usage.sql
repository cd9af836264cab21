-- Add what was used by runs that their handlers completed, each in a row of its own, to one row for
-- each tenant and day; at most $1 of them. Only the holder of the chore does this.
WITH single AS (
    DELETE FROM gnomon.usage
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM gnomon.usage WHERE slot >= 128 LIMIT $1))
    RETURNING tenant_id, day, executions, compute_seconds, stored_bytes
)
INSERT INTO gnomon.usage AS u (tenant_id, day, slot, executions, compute_seconds, stored_bytes)
SELECT tenant_id, day, -1, sum(executions), sum(compute_seconds), sum(stored_bytes)
FROM single
GROUP BY tenant_id, day
ORDER BY tenant_id, day
ON CONFLICT (tenant_id, day, slot) DO UPDATE
SET executions = u.executions + excluded.executions,
    compute_seconds = u.compute_seconds + excluded.compute_seconds,
    stored_bytes = u.stored_bytes + excluded.stored_bytes
