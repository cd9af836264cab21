-- A run whose rollback can begin: its end has been reached, and the tasks of the rollback are not there.
-- Locked as by the gate: the end of the run, then the run. Nothing where another does it.
SELECT gnomon.now() AS now
FROM (
    SELECT n.tenant_id, n.run_id FROM gnomon.workflow_node AS n
    WHERE n.tenant_id = $1 AND n.task_id = $2 AND n.step = 1
    FOR UPDATE SKIP LOCKED
) AS n
JOIN gnomon.workflow_run AS r ON r.tenant_id = n.tenant_id AND r.id = n.run_id
WHERE r.state = 2 AND NOT r.compensated
FOR UPDATE OF r SKIP LOCKED
