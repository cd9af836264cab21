-- One run of a tenant, and whether a dead letter holds it up.
SELECT
    r.id, r.tenant_id, r.workflow, r.version, r.state, r.paused, r.reason, r.input, r.deadline,
    r.created_at, r.created_by, r.finished_at, r.retry_of, r.rolls_back,
    r.state IN (0, 2) AND EXISTS (
        SELECT FROM gnomon.task AS t
        WHERE t.tenant_id = r.tenant_id AND t.workflow_run_id = r.id AND t.state = 4
          AND NOT EXISTS (
              SELECT FROM gnomon.workflow_result AS e
              WHERE e.tenant_id = t.tenant_id AND e.task_id = t.id
          )
    ) AS dead
FROM gnomon.workflow_run AS r
WHERE r.tenant_id = $1 AND r.id = $2
