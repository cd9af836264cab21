-- PostgreSQL cannot generate a column that is there: both are made anew, and every row is written.
DROP TRIGGER place_changed_task ON gnomon.task;
DROP FUNCTION gnomon.place_changed_task();
DROP TRIGGER place_new_task ON gnomon.task;
DROP FUNCTION gnomon.place_new_task();
ALTER TABLE gnomon.task
    DROP COLUMN shard,
    DROP COLUMN flow,
    ADD COLUMN shard smallint NOT NULL GENERATED ALWAYS AS (get_byte(uuid_send(id), 15)) STORED,
    ADD COLUMN flow bigint NOT NULL GENERATED ALWAYS AS (
        hashtextextended(
            task_type || E'\x1f' || coalesce(queue, '') || E'\x1f' || coalesce(limit_keys, '')
                || E'\x1f' || coalesce(split_part(target ->> 'url', '/', 3), ''),
            0
        )
    ) STORED;
CREATE INDEX task_due ON gnomon.task (shard, due_at, id) WHERE state = 0;
CREATE INDEX task_flow ON gnomon.task (tenant_id, lane, flow, due_at, id) WHERE state = 0;
DROP FUNCTION gnomon.flow_of(text, text, text, json);
DROP FUNCTION gnomon.shard_of(uuid);
