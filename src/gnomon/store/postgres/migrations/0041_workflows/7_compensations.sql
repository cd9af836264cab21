-- What undoes the nodes of a run: the tasks of a rollback, as they were accepted with the run. task: a
-- Submission without its payload; template: of what their turn decides.
CREATE TABLE gnomon.workflow_compensation (
    tenant_id text COLLATE "C" NOT NULL,
    run_id    uuid NOT NULL,
    node      text NOT NULL,
    task      json NOT NULL,
    payload   json,
    template  json,
    PRIMARY KEY (tenant_id, run_id, node),
    FOREIGN KEY (tenant_id, run_id) REFERENCES gnomon.workflow_run (tenant_id, id) ON DELETE CASCADE
);
SELECT gnomon.wall('gnomon.workflow_compensation', 'SELECT, INSERT, DELETE');
