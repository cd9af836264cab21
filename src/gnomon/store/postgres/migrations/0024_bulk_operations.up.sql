-- Operations on many tasks, chosen by a filter. A row says how far its operation is: each chunk moves
-- `position` in the transaction that changes the tasks, so that no task is touched twice, whoever goes
-- on with it. The version before neither reads nor writes it.
CREATE TABLE gnomon.bulk_operation (
    tenant_id  text COLLATE "C" NOT NULL,
    id         uuid NOT NULL,
    asked      json NOT NULL,           -- the action, its filter and the limits of its requester
    created_by text,
    started_at timestamptz NOT NULL,
    ended_at   timestamptz,
    status     text COLLATE "C" NOT NULL,  -- RUNNING, FINISHED, STOPPED
    position   uuid NOT NULL,           -- tasks with a lower id are still to be looked at
    total      integer NOT NULL,        -- that matched at the start
    capped     boolean NOT NULL,        -- there were more than were counted
    changed    bigint NOT NULL DEFAULT 0,
    refused    bigint NOT NULL DEFAULT 0,
    reasons    json NOT NULL DEFAULT '{}',  -- how many were refused for each
    PRIMARY KEY (tenant_id, id)
) WITH (fillfactor = 50);
CREATE INDEX bulk_operation_open ON gnomon.bulk_operation (id) WHERE status = 'RUNNING';
CREATE INDEX bulk_operation_ended ON gnomon.bulk_operation (id) WHERE status <> 'RUNNING';
SELECT gnomon.wall('gnomon.bulk_operation', 'SELECT, INSERT, UPDATE, DELETE');
