-- Shard and flow are written by whoever writes a task, and not generated: PostgreSQL generates them row
-- by row, where a batch has one flow, and looks at them again for each row that a claim changes.
-- Statements of the version before name neither: the triggers serve them, as they serve plain SQL.

-- The shard that a task lies in: gnomon.model.fleet.shard.
CREATE FUNCTION gnomon.shard_of(id uuid) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT pg_catalog.get_byte(pg_catalog.uuid_send(id), 15)::smallint $$;

-- Tasks of a flow have the same type, queue, limit keys and host: what keeps one from starting keeps all.
CREATE FUNCTION gnomon.flow_of(task_type text, queue text, limit_keys text, target json) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
SELECT pg_catalog.hashtextextended(
    task_type || E'\x1f' || coalesce(queue, '') || E'\x1f' || coalesce(limit_keys, '')
        || E'\x1f' || coalesce(pg_catalog.split_part(target ->> 'url', '/', 3), ''),
    0
)
$$;

ALTER TABLE gnomon.task
    ALTER COLUMN shard DROP EXPRESSION,
    ALTER COLUMN flow DROP EXPRESSION;

CREATE FUNCTION gnomon.place_new_task() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog
    AS $$
BEGIN
    NEW.shard := gnomon.shard_of(NEW.id);
    NEW.flow := gnomon.flow_of(NEW.task_type, NEW.queue, NEW.limit_keys, NEW.target);
    RETURN NEW;
END
$$;
CREATE TRIGGER place_new_task BEFORE INSERT ON gnomon.task
    FOR EACH ROW WHEN (NEW.shard IS NULL OR NEW.flow IS NULL)
    EXECUTE FUNCTION gnomon.place_new_task();

-- After, and not before: a trigger before an UPDATE makes PostgreSQL read each row of every claim again.
CREATE FUNCTION gnomon.place_changed_task() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog
    AS $$
DECLARE
    v_shard constant smallint := gnomon.shard_of(NEW.id);
    v_flow constant bigint := gnomon.flow_of(NEW.task_type, NEW.queue, NEW.limit_keys, NEW.target);
BEGIN
    IF NEW.shard <> v_shard OR NEW.flow <> v_flow THEN
        UPDATE gnomon.task AS t SET shard = v_shard, flow = v_flow
        WHERE t.tenant_id = NEW.tenant_id AND t.id = NEW.id;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER place_changed_task
    AFTER UPDATE OF id, task_type, queue, limit_keys, target, shard, flow ON gnomon.task
    FOR EACH ROW WHEN (
        (NEW.id, NEW.task_type, NEW.queue, NEW.limit_keys, NEW.target::text, NEW.shard, NEW.flow)
        IS DISTINCT FROM
        (OLD.id, OLD.task_type, OLD.queue, OLD.limit_keys, OLD.target::text, OLD.shard, OLD.flow)
    )
    EXECUTE FUNCTION gnomon.place_changed_task();
