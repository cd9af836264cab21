-- Which of these tasks have not ended. One that is not among the live tasks is in the archive, or was
-- removed: so the primary key of the live ones is all that is probed.
SELECT k.tenant_id, k.id
FROM unnest($1::text[], $2::uuid[]) AS k (tenant_id, id)
CROSS JOIN LATERAL (
    SELECT state FROM gnomon.task WHERE task.tenant_id = k.tenant_id AND task.id = k.id
    OFFSET 0  -- a probe for each, never a join
) AS t
WHERE t.state <> 4
