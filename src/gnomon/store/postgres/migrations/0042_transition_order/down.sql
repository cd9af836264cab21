DROP FUNCTION IF EXISTS gnomon.transitions_after(text, bigint, bigint, bigint, integer);
DROP INDEX IF EXISTS gnomon.transition_tenant_order;
CREATE OR REPLACE FUNCTION gnomon.append_transition(
    p_tenant text, p_task uuid, p_from integer, p_to integer, p_attempt integer, p_fence bigint,
    p_node uuid, p_end boolean
) RETURNS void
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

CREATE OR REPLACE FUNCTION gnomon.log_new_task() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
    AS $$
BEGIN
    PERFORM gnomon.append_transition(
        NEW.tenant_id, NEW.id, NULL, NEW.state, NEW.attempt, NEW.fence, NEW.node, false
    );
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION gnomon.log_changed_task() RETURNS trigger
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

CREATE OR REPLACE FUNCTION gnomon.log_gone_task() RETURNS trigger
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

CREATE OR REPLACE FUNCTION gnomon.log_deleted_tasks() RETURNS trigger
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
DROP FUNCTION IF EXISTS gnomon.append_transition(
    text, uuid, text, integer, integer, integer, bigint, uuid, boolean
);
DROP TABLE IF EXISTS gnomon.transition_order;
ALTER TABLE gnomon.transition
    DROP COLUMN IF EXISTS task_type, DROP COLUMN IF EXISTS xact, DROP COLUMN IF EXISTS place;
DROP SEQUENCE IF EXISTS gnomon.transition_place;
