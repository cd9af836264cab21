-- Those of these tasks that are of a run which is being rolled back, or was: all but the rollback's own.
SELECT n.task_id
FROM unnest($2::uuid[]) AS k (id)
CROSS JOIN LATERAL (
    SELECT w.task_id, w.run_id, w.compensates FROM gnomon.workflow_node AS w
    WHERE w.tenant_id = $1 AND w.task_id = k.id
    OFFSET 0
) AS n
JOIN gnomon.workflow_run AS r ON r.tenant_id = $1 AND r.id = n.run_id
WHERE r.state IN (2, 13) AND n.compensates IS NULL
