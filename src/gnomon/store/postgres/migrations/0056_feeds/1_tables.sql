-- Feeds: where a tenant's outcomes are published. What a feed wants is asked when a task ends, so a feed
-- holds for tasks that wait already. gap_since: so much waits that no more is noted; see gnomon.feed_note.
CREATE TABLE gnomon.feed (
    tenant_id     text COLLATE "C" NOT NULL,
    id            uuid NOT NULL,
    name          text COLLATE "C" NOT NULL,
    url           text NOT NULL,              -- queue://connection/topic
    task_types    text[],                     -- null: all
    states        smallint[] NOT NULL,        -- gnomon.model.tasks.lifecycle.State
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    removed_at    timestamptz,                -- a chore removes its notes, and then the row
    gap_since     timestamptz,
    failing_since timestamptz,
    last_error    text,
    published     bigint NOT NULL DEFAULT 0,
    published_at  timestamptz,                -- the last time
    PRIMARY KEY (tenant_id, id)
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX feed_name ON gnomon.feed (tenant_id, name) WHERE removed_at IS NULL;
SELECT gnomon.wall('gnomon.feed', 'SELECT, INSERT, UPDATE, DELETE');

-- Outcomes that are not yet published, one row for each feed. Only ever inserted, in the transaction that
-- ends the task, and deleted when the broker has confirmed it. A task's later end is committed after its
-- earlier one, so the order of places is the order of a task's ends, and who reads the lowest places that
-- it sees never publishes a later one first. state 0: outcomes since `at` are missing; see gap_since.
CREATE SEQUENCE gnomon.feed_place;
CREATE TABLE gnomon.feed_note (
    tenant_id text COLLATE "C" NOT NULL,
    feed_id   uuid NOT NULL,
    place     bigint NOT NULL DEFAULT nextval('gnomon.feed_place'),
    task_id   uuid,
    task_type text,
    state     smallint NOT NULL,
    attempt   integer NOT NULL DEFAULT 0,
    fence     bigint NOT NULL DEFAULT 0,
    at        timestamptz NOT NULL,
    until     timestamptz,                    -- of what is missing
    error     text,
    PRIMARY KEY (feed_id, place)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
SELECT gnomon.wall('gnomon.feed_note', 'SELECT');

-- Notes an outcome for the feeds that want it. The settling statement does the same for all that it ends.
CREATE FUNCTION gnomon.note_outcome(
    p_tenant text, p_task uuid, p_type text, p_state smallint, p_attempt integer, p_fence bigint,
    p_at timestamptz, p_error text
) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog
    AS $$
BEGIN
    INSERT INTO gnomon.feed_note (tenant_id, feed_id, task_id, task_type, state, attempt, fence, at, error)
    SELECT f.tenant_id, f.id, p_task, p_type, p_state, p_attempt, p_fence, p_at, p_error
    FROM gnomon.feed AS f
    WHERE f.tenant_id = p_tenant AND f.removed_at IS NULL AND f.gap_since IS NULL
      AND p_state = ANY (f.states) AND (f.task_types IS NULL OR p_type = ANY (f.task_types));
END
$$;
REVOKE EXECUTE ON FUNCTION gnomon.note_outcome(
    text, uuid, text, smallint, integer, bigint, timestamptz, text
) FROM PUBLIC;

-- A task that has ended is in the archive when this runs, after the statement; one that is not was
-- deleted, and has no outcome. SECURITY DEFINER: whoever may end a task need not be able to write notes.
CREATE FUNCTION gnomon.note_gone_outcome() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
    AS $$
BEGIN
    IF EXISTS (SELECT FROM gnomon.feed AS f WHERE f.tenant_id = OLD.tenant_id) THEN
        PERFORM gnomon.note_outcome(
            a.tenant_id, a.id, a.task_type, a.state, a.attempt, OLD.fence, a.finished_at, a.last_error
        )
        FROM gnomon.task_archive AS a
        WHERE a.tenant_id = OLD.tenant_id AND a.id = OLD.id;
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION gnomon.note_dead_outcome() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
    AS $$
BEGIN
    PERFORM gnomon.note_outcome(
        NEW.tenant_id, NEW.id, NEW.task_type, NEW.state, NEW.attempt, NEW.fence, gnomon.now(),
        NEW.last_error
    );
    RETURN NULL;
END
$$;
REVOKE EXECUTE ON FUNCTION gnomon.note_gone_outcome(), gnomon.note_dead_outcome() FROM PUBLIC;
