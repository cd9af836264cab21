-- Make dead letters of running tasks that cannot be read or settled, each only if its fence and its
-- node are still these. $1 the node, $2/$3 the keys, $4 fences, $5 reasons.
UPDATE gnomon.task AS t
SET state = 4,
    fence = t.fence + 1,
    node = NULL,
    run_until = NULL,
    due_at = m.now,
    last_error = r.reason,
    fingerprint = NULL  -- the fingerprinter works it out
FROM unnest($2::text[], $3::uuid[], $4::bigint[], $5::text[]) AS r (tenant_id, id, fence, reason),
    (SELECT gnomon.now() AS now) AS m
WHERE t.tenant_id = r.tenant_id AND t.id = r.id AND t.fence = r.fence AND t.node = $1
RETURNING t.tenant_id, t.id, t.task_type, t.lane, t.cron_job_id IS NOT NULL AS recurring
