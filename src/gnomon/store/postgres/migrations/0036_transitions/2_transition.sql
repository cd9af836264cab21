-- Transitions of tasks whose type logs them. Only the triggers below write here, in the transaction
-- that changes the task; only retention deletes.
CREATE TABLE gnomon.transition (
    tenant_id  text COLLATE "C" NOT NULL,
    task_id    uuid NOT NULL,
    number     integer NOT NULL,        -- of a task, from 1 on
    at         timestamptz NOT NULL,
    from_state smallint,                -- gnomon.model.lifecycle.State; null: the task was stored
    to_state   smallint,                -- null: the task was deleted
    attempt    integer NOT NULL,
    fence      bigint NOT NULL,
    node       text,                    -- the name of the node that ran it, or runs it from then on
    PRIMARY KEY (tenant_id, task_id, number)
);
CREATE INDEX transition_at ON gnomon.transition (at);
SELECT gnomon.wall('gnomon.transition', 'SELECT');

-- Append a transition. Whoever calls has changed the row of the task, and holds its lock: nobody else
-- takes the same number. Pausing and resuming for ever would fill the disk, so of a task with 1 000
-- transitions only its end is appended.
CREATE FUNCTION gnomon.append_transition(
    p_tenant text, p_task uuid, p_from integer, p_to integer, p_attempt integer, p_fence bigint,
    p_node uuid, p_end boolean
) RETURNS void
    -- Not in SQL: PostgreSQL before 18 would plan it anew for every row.
    LANGUAGE plpgsql SET search_path = pg_catalog
    AS $$
DECLARE
    v_last integer;
BEGIN
    SELECT coalesce(max(t.number), 0) INTO v_last
    FROM gnomon.transition AS t
    WHERE t.tenant_id = p_tenant AND t.task_id = p_task;
    IF p_end OR v_last < 1000 THEN
        INSERT INTO gnomon.transition
            (tenant_id, task_id, number, at, from_state, to_state, attempt, fence, node)
        VALUES (
            p_tenant, p_task, v_last + 1, gnomon.now(), p_from, p_to, p_attempt, p_fence,
            (SELECT n.name FROM gnomon.node AS n WHERE n.incarnation = p_node)
        );
    END IF;
END
$$;
REVOKE EXECUTE ON FUNCTION gnomon.append_transition(
    text, uuid, integer, integer, integer, bigint, uuid, boolean
) FROM PUBLIC;

-- SECURITY DEFINER: whoever may change a task need not be able to write transitions.
CREATE FUNCTION gnomon.log_new_task() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
    AS $$
BEGIN
    PERFORM gnomon.append_transition(
        NEW.tenant_id, NEW.id, NULL, NEW.state, NEW.attempt, NEW.fence, NEW.node, false
    );
    RETURN NULL;
END
$$;

CREATE FUNCTION gnomon.log_changed_task() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
    AS $$
BEGIN
    PERFORM gnomon.append_transition(
        NEW.tenant_id, NEW.id, OLD.state, NEW.state, NEW.attempt, NEW.fence,
        coalesce(NEW.node, OLD.node), false
    );
    RETURN NULL;
END
$$;

-- A task that ends is in the archive when this runs, after the statement; one that is not was deleted.
CREATE FUNCTION gnomon.log_gone_task() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
    AS $$
DECLARE
    v_state integer;
    v_attempt integer;
BEGIN
    SELECT state, attempt INTO v_state, v_attempt
    FROM gnomon.task_archive
    WHERE tenant_id = OLD.tenant_id AND id = OLD.id;
    PERFORM gnomon.append_transition(
        OLD.tenant_id, OLD.id, OLD.state, v_state, coalesce(v_attempt, OLD.attempt), OLD.fence,
        OLD.node, true
    );
    RETURN NULL;
END
$$;

-- Finished tasks that somebody deletes. Retention drops or clears partitions, which calls no trigger
-- of their parent.
CREATE FUNCTION gnomon.log_deleted_tasks() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
    AS $$
BEGIN
    PERFORM gnomon.append_transition(
        g.tenant_id, g.id, g.state, NULL, g.attempt, g.fence, NULL, true
    )
    FROM gone AS g
    WHERE EXISTS (
        SELECT FROM gnomon.transition AS t WHERE t.tenant_id = g.tenant_id AND t.task_id = g.id
    );
    RETURN NULL;
END
$$;

-- A trigger calls its function whoever changes the row; on a table of their own, nobody else can.
REVOKE EXECUTE ON FUNCTION
    gnomon.log_new_task(), gnomon.log_changed_task(), gnomon.log_gone_task(), gnomon.log_deleted_tasks()
FROM PUBLIC;
