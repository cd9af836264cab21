-- Which of these batches go on by themselves: they are open, or members have not ended.
SELECT k.tenant_id, k.id
FROM unnest($1::text[], $2::uuid[]) AS k (tenant_id, id)
CROSS JOIN LATERAL (
    SELECT b.finished_at FROM gnomon.batch AS b WHERE b.tenant_id = k.tenant_id AND b.id = k.id
    OFFSET 0  -- a probe for each, never a join
) AS b
WHERE b.finished_at IS NULL
