CREATE OR REPLACE VIEW gnomon.try WITH (security_invoker = true) AS
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
    WHERE t.state = 1;
ALTER FUNCTION gnomon.admit RESET enable_seqscan;
ALTER FUNCTION gnomon.drop_dead_leases RESET enable_seqscan;
ALTER FUNCTION gnomon.exchange_permits RESET enable_seqscan;
DROP FUNCTION gnomon.read_due_jobs;
DROP FUNCTION gnomon.read_heads;
DROP FUNCTION gnomon.read_flows;
DROP FUNCTION gnomon.read_overdue;
DROP FUNCTION gnomon.read_behind;
DROP FUNCTION gnomon.read_ahead;
DROP FUNCTION gnomon.keep_pages;
ALTER TABLE gnomon.idempotency RESET (vacuum_truncate);
ALTER TABLE gnomon.task RESET (vacuum_truncate);
