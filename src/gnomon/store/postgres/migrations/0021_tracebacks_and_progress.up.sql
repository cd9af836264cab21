-- Where an execution that did not succeed has failed: at most 16 KB of text, mostly none. The version
-- before neither reads nor writes it.
ALTER TABLE gnomon.execution ADD COLUMN traceback text;

CREATE OR REPLACE VIEW gnomon.all_executions WITH (security_invoker = true) AS
    SELECT tenant_id, task_id, fence, attempt, outcome, worker, started_at, finished_at, error,
           response_status, response_body, NULL::json AS result, traceback
    FROM gnomon.execution
    UNION ALL
    SELECT tenant_id, id, fence, attempt, 0::smallint, worker, started_at, finished_at, NULL,
           response_status, response_body, result, NULL
    FROM gnomon.task_archive
    WHERE state = 10
    UNION ALL
    SELECT t.tenant_id, t.id, t.fence, t.attempt, NULL, n.name, t.started_at, NULL, NULL,
           NULL, NULL, NULL, NULL
    FROM gnomon.task t LEFT JOIN gnomon.node n ON n.incarnation = t.node
    WHERE t.state + 0 = 1;

-- How far running tasks are, as their handlers say: at most a row for each. Apart from the task, whose
-- row would be written again every second, indexes included, and which settling must find where the
-- claim left it. A row is valid while the task runs under its fence; the node that wrote it deletes
-- it, and the pruner what dead nodes have left.
CREATE TABLE gnomon.progress (
    tenant_id text COLLATE "C" NOT NULL,
    task_id   uuid NOT NULL,
    fence     bigint NOT NULL,
    fraction  double precision,  -- 0 to 1; null: only a message is known
    message   text,
    at        timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, task_id)
) WITH (
    -- No index holds what changes, so a new version takes the place of the one before on its page.
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000
);
SELECT gnomon.wall('gnomon.progress', 'SELECT, DELETE');
