-- Correct the bytes of a tenant ($1) by $2: what was counted less what was known before it began,
-- and what was taken off meanwhile. What was written meanwhile stays added. $3 when it had been counted before (null: never): whoever counted
-- meanwhile has corrected it already. $4 seconds that it took.
INSERT INTO gnomon.tenant_storage AS s (tenant_id, bytes, counted_at, count_seconds)
VALUES ($1, $2, gnomon.now(), $4)
ON CONFLICT (tenant_id) DO UPDATE
SET bytes = s.bytes + excluded.bytes, counted_at = excluded.counted_at,
    count_seconds = excluded.count_seconds
WHERE s.counted_at IS NOT DISTINCT FROM $3
RETURNING bytes
