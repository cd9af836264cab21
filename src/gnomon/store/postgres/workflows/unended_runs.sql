-- Which of these runs go on by themselves: they have not ended, and no dead letter holds them up.
SELECT k.tenant_id, k.id
FROM unnest($1::text[], $2::uuid[]) AS k (tenant_id, id)
CROSS JOIN LATERAL (
    SELECT r.state FROM gnomon.workflow_run AS r WHERE r.tenant_id = k.tenant_id AND r.id = k.id
    OFFSET 0  -- a probe for each, never a join
) AS r
WHERE r.state < 10 AND NOT (r.state = 0 AND EXISTS (
    SELECT FROM gnomon.task AS t
    WHERE t.tenant_id = k.tenant_id AND t.workflow_run_id = k.id AND t.state = 4
      AND NOT EXISTS (
          SELECT FROM gnomon.workflow_result AS e
          WHERE e.tenant_id = t.tenant_id AND e.task_id = t.id
      )
))
