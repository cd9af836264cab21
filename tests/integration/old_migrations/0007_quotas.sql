-- Quotas at submission: what a tenant may still store, and what it stored within the last second.
-- Tenants without such quotas have no row here, and nothing is asked for them.

-- room: in all rows of a tenant together, at least so much may still be stored before its quota
-- scheduled_tasks is reached. What is stored takes of it under a row's lock; what ends gives nothing
-- back, but is found when the tasks are counted again. So it is never too much. A tenant has eight
-- rows, so that those who store its tasks at the same time seldom wait for each other's commit.
CREATE TABLE gnomon.tenant_room (
    tenant_id        text COLLATE "C" NOT NULL,
    slot             smallint NOT NULL,
    room             bigint NOT NULL DEFAULT 0,
    quota            bigint,            -- that the room was counted for
    counted_at       timestamptz NOT NULL DEFAULT '-infinity',
    count_again_at   timestamptz NOT NULL DEFAULT '-infinity',  -- not sooner, if it is too little
    distrusted_until timestamptz NOT NULL,  -- a process may not know yet that there is a quota
    PRIMARY KEY (tenant_id, slot)
) WITH (fillfactor = 30);  -- changed with every submission: on its own page, without the index

-- When tasks were stored within the last second, and how many at each moment.
CREATE TABLE gnomon.tenant_pace (
    tenant_id text COLLATE "C" PRIMARY KEY,
    moments   timestamptz[] NOT NULL DEFAULT '{}',
    numbers   integer[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 30);

-- A tenant's quotas may have changed: who has not heard of it stores without asking, for a moment.
CREATE FUNCTION gnomon.distrust_room() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM gnomon.tenant_room AS r
    WHERE r.tenant_id = coalesce(NEW.id, OLD.id) ORDER BY r.slot FOR UPDATE;
    IF TG_OP = 'DELETE' THEN
        DELETE FROM gnomon.tenant_room AS r WHERE r.tenant_id = OLD.id;
        DELETE FROM gnomon.tenant_pace AS p WHERE p.tenant_id = OLD.id;
    ELSE
        UPDATE gnomon.tenant_room AS r
        SET distrusted_until = gnomon.now() + interval '2 seconds'
        WHERE r.tenant_id = NEW.id;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER distrust_room AFTER INSERT OR UPDATE OR DELETE ON gnomon.tenant
    FOR EACH ROW EXECUTE FUNCTION gnomon.distrust_room();

-- What a tenant has submitted that has not ended; runs of cron jobs and dead letters not counted.
-- It walks the tenant's own tasks, whatever the statistics say of the table.
CREATE FUNCTION gnomon.scheduled_tasks(tenant text) RETURNS bigint
    LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    RETURN (
        SELECT count(*) FROM gnomon.task AS t
        WHERE t.tenant_id = tenant AND t.state < 4 AND t.cron_job_id IS NULL
    );
END
$$;

-- Whether a tenant's room is known for its quota. Even then it is counted once a minute: plain SQL,
-- and processes with other plans, store without asking.
CREATE FUNCTION gnomon.is_known(held gnomon.tenant_room, asked bigint, moment timestamptz)
    RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT held.quota IS NOT DISTINCT FROM asked AND held.counted_at >= held.distrusted_until
        AND held.counted_at BETWEEN moment - interval '1 minute' AND moment + interval '1 minute'
$$;

-- Take room for `wanted` tasks, or for fewer where there is less, unless it must be for the `whole`.
-- Gives for how many, and the room before where it had to be looked at as a whole.
CREATE FUNCTION gnomon.take_room(
    tenant text, asked bigint, wanted integer, whole boolean, OUT passed integer, OUT room bigint
) LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := gnomon.now();
    began timestamptz;
    known boolean;
    again_at timestamptz;
    share bigint;
    rows integer;
BEGIN
    BEGIN
        UPDATE gnomon.tenant_room AS r SET room = r.room - wanted
        WHERE r.tenant_id = tenant AND r.slot = pg_backend_pid() % 8 AND r.room >= wanted
          AND gnomon.is_known(r, asked, moment);
        IF FOUND THEN
            passed := wanted;
            RETURN;
        END IF;
        -- The row may be locked although it was not changed; who waits for all must hold none.
        RAISE SQLSTATE 'GN002';
    EXCEPTION
        WHEN SQLSTATE 'GN002' THEN NULL;
    END;
    SELECT sum(r.room), bool_and(gnomon.is_known(r, asked, moment)), min(r.count_again_at)
    INTO room, known, again_at FROM gnomon.tenant_room AS r WHERE r.tenant_id = tenant;
    IF known AND moment < again_at AND room < (CASE WHEN whole THEN wanted ELSE 1 END) THEN
        passed := 0;  -- they were counted a moment ago
        RETURN;
    END IF;
    LOOP
        PERFORM FROM gnomon.tenant_room AS r WHERE r.tenant_id = tenant ORDER BY r.slot FOR UPDATE;
        GET DIAGNOSTICS rows = ROW_COUNT;
        EXIT WHEN rows = 8;
        INSERT INTO gnomon.tenant_room (tenant_id, slot, distrusted_until)
        SELECT tenant, slot, gnomon.now() + interval '2 seconds'
        FROM generate_series(0, 7) AS slot ORDER BY slot
        ON CONFLICT DO NOTHING;
    END LOOP;
    moment := gnomon.now();
    SELECT sum(r.room), bool_and(gnomon.is_known(r, asked, moment)), min(r.count_again_at)
    INTO room, known, again_at FROM gnomon.tenant_room AS r WHERE r.tenant_id = tenant;
    IF NOT known OR (room < wanted AND moment >= again_at) THEN
        -- A tenant at its quota is not counted for every refusal: no sooner than after 100 ms, and
        -- ten times as long as this takes.
        began := clock_timestamp();
        room := asked - gnomon.scheduled_tasks(tenant);
        again_at := moment
            + greatest(interval '100 milliseconds', 10 * (clock_timestamp() - began));
        known := false;
    END IF;
    passed := greatest(0, least(wanted, room));
    IF whole AND passed < wanted THEN
        passed := 0;
    END IF;
    share := floor((room - passed) / 8.0);
    UPDATE gnomon.tenant_room AS r
    SET room = CASE WHEN r.slot = 0 THEN take_room.room - passed - 7 * share ELSE share END,
        quota = asked,
        counted_at = CASE WHEN known THEN r.counted_at ELSE moment END,
        count_again_at = again_at
    WHERE r.tenant_id = tenant AND (passed > 0 OR NOT known);
END
$$;

-- How many tasks a tenant may store now so that no second has more than `rate` of them. Its row is
-- locked, and there.
CREATE FUNCTION gnomon.hold_pace(tenant text, rate integer, moment OUT timestamptz, pace OUT integer)
    LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        PERFORM FROM gnomon.tenant_pace AS p WHERE p.tenant_id = tenant FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO gnomon.tenant_pace (tenant_id) VALUES (tenant) ON CONFLICT DO NOTHING;
    END LOOP;
    moment := gnomon.now();
    SELECT greatest(0, rate - coalesce(sum(e.number), 0)) INTO pace
    FROM gnomon.tenant_pace AS p CROSS JOIN LATERAL unnest(p.moments, p.numbers) AS e (at, number)
    WHERE p.tenant_id = tenant
      AND e.at > moment - interval '1 second' AND e.at < moment + interval '1 second';
END
$$;

-- Remember that tasks were stored. Moments within 10 ms are one entry, which counts until its last is
-- a second old.
CREATE FUNCTION gnomon.keep_pace(tenant text, moment timestamptz, number integer) RETURNS void
    LANGUAGE sql AS $$
    UPDATE gnomon.tenant_pace AS p
    SET (moments, numbers) = (
        SELECT array_agg(s.at ORDER BY s.at), array_agg(s.number ORDER BY s.at)
        FROM (
            SELECT max(e.at) AS at, sum(e.number)::integer AS number
            FROM (
                SELECT * FROM unnest(p.moments, p.numbers)
                UNION ALL
                SELECT moment, number
            ) AS e (at, number)
            WHERE e.at > moment - interval '1 second' AND e.at < moment + interval '1 second'
            GROUP BY date_bin('10 milliseconds', e.at, 'epoch')
        ) AS s
    )
    WHERE p.tenant_id = tenant
$$;

-- Let in what the quotas of the tenants leave room for, in the transaction that stores it. The
-- tenants are in order, so that two batches cannot deadlock. For each of them: how many tasks it
-- would store, its quota of scheduled tasks, and of submissions a second (null: none). `whole`: all
-- of them, or none. `patience`: milliseconds to wait for others who store for the same tenant. Gives
-- how many may be stored, the room before where they are not all, and what the second had left.
CREATE FUNCTION gnomon.admit(
    tenants text[], wanted integer[], quotas bigint[], rates integer[], whole boolean,
    patience integer
) RETURNS TABLE (tenant_id text, passed integer, room bigint, pace integer)
    LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz;
BEGIN
    IF cardinality(tenants) = 0 THEN
        RETURN;
    END IF;
    -- Who holds a tenant's rows and falls silent must not hold up the tenant for long.
    PERFORM set_config('idle_in_transaction_session_timeout', '5s', true),
        set_config('lock_timeout', patience::text, true);
    FOR i IN 1 .. cardinality(tenants) LOOP
        tenant_id := tenants[i];
        passed := wanted[i];
        room := NULL;
        pace := NULL;
        IF rates[i] IS NOT NULL THEN
            SELECT * INTO moment, pace FROM gnomon.hold_pace(tenants[i], rates[i]);
            passed := CASE WHEN whole AND pace < passed THEN 0 ELSE least(passed, pace) END;
        END IF;
        IF quotas[i] IS NOT NULL AND passed > 0 THEN
            SELECT * INTO passed, room
            FROM gnomon.take_room(tenants[i], quotas[i], passed, whole);
        END IF;
        IF rates[i] IS NOT NULL AND passed > 0 THEN
            PERFORM gnomon.keep_pace(tenants[i], moment, passed);
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
