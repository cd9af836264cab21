DROP TABLE gnomon.progress;
DROP VIEW gnomon.all_executions;
ALTER TABLE gnomon.execution DROP COLUMN traceback;
CREATE VIEW gnomon.all_executions WITH (security_invoker = true) AS
    SELECT tenant_id, task_id, fence, attempt, outcome, worker, started_at, finished_at, error,
           response_status, response_body, NULL::json AS result
    FROM gnomon.execution
    UNION ALL
    SELECT tenant_id, id, fence, attempt, 0::smallint, worker, started_at, finished_at, NULL,
           response_status, response_body, result
    FROM gnomon.task_archive
    WHERE state = 10
    UNION ALL
    SELECT t.tenant_id, t.id, t.fence, t.attempt, NULL, n.name, t.started_at, NULL, NULL,
           NULL, NULL, NULL
    FROM gnomon.task t LEFT JOIN gnomon.node n ON n.incarnation = t.node
    WHERE t.state + 0 = 1;
GRANT SELECT ON gnomon.all_executions TO gnomon_tenant;
