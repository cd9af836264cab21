-- How far a bulk operation is after a chunk. $3 position, $4 changed and $5 refused in the chunk,
-- $6 reasons in all, $7 whether it was the last.
UPDATE gnomon.bulk_operation
SET position = $3,
    changed = changed + $4,
    refused = refused + $5,
    reasons = $6::json,
    status = CASE WHEN $7 THEN 'FINISHED' ELSE status END,
    ended_at = CASE WHEN $7 THEN (SELECT gnomon.now()) END
WHERE tenant_id = $1 AND id = $2
