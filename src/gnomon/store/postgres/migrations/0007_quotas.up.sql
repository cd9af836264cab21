-- Quotas at submission: what a tenant may still store, and what it stored within the last second.
-- Tenants without such quotas have no row here, and nothing is asked for them.

-- room: at least so much may still be stored before scheduled_tasks is reached. What is stored takes
-- of it under the row's lock; what ends gives nothing back, but is found when the tasks are counted
-- again. So it is never too much.
CREATE TABLE gnomon.tenant_room (
    tenant_id        text COLLATE "C" PRIMARY KEY,
    room             bigint NOT NULL DEFAULT 0,
    quota            bigint,            -- that the room was counted for
    counted_at       timestamptz NOT NULL DEFAULT '-infinity',
    count_again_at   timestamptz NOT NULL DEFAULT '-infinity',  -- not sooner, if it is too little
    distrusted_until timestamptz NOT NULL,  -- a process may not know yet that there is a quota
    moments          timestamptz[] NOT NULL DEFAULT '{}',  -- when tasks were stored lately,
    numbers          integer[] NOT NULL DEFAULT '{}'       -- and how many at each moment
) WITH (fillfactor = 30);  -- changed with every submission: on its own page, without the index

-- A tenant's quotas may have changed: who has not heard of it stores without asking, for a moment.
CREATE FUNCTION gnomon.distrust_room() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM gnomon.tenant_room WHERE tenant_id = OLD.id;
    ELSE
        UPDATE gnomon.tenant_room
        SET distrusted_until = gnomon.now() + interval '2 seconds'
        WHERE tenant_id = NEW.id;
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

-- The row of a tenant, locked.
CREATE FUNCTION gnomon.hold_room(tenant text) RETURNS gnomon.tenant_room
    LANGUAGE plpgsql AS $$
DECLARE
    held gnomon.tenant_room;
BEGIN
    LOOP
        SELECT * INTO held FROM gnomon.tenant_room AS r WHERE r.tenant_id = tenant FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO gnomon.tenant_room (tenant_id, distrusted_until)
        VALUES (tenant, gnomon.now() + interval '2 seconds')
        ON CONFLICT (tenant_id) DO NOTHING;
    END LOOP;
    RETURN held;
END
$$;

-- Count anew where the room is not known, is known for another quota, or is less than `wanted`. A
-- tenant that stands at its quota is not counted for every refusal: no sooner than after 100 ms, and
-- ten times as long as the last count took.
CREATE FUNCTION gnomon.counted(
    held gnomon.tenant_room, asked bigint, wanted bigint, moment timestamptz
) RETURNS gnomon.tenant_room
    LANGUAGE plpgsql AS $$
DECLARE
    began timestamptz;
BEGIN
    IF held.quota IS NOT DISTINCT FROM asked
        AND held.counted_at >= held.distrusted_until
        AND held.counted_at BETWEEN moment - interval '1 minute' AND moment
        AND (held.room >= wanted
             OR moment BETWEEN held.counted_at AND held.count_again_at)
    THEN
        RETURN held;
    END IF;
    began := clock_timestamp();
    held.room := asked - gnomon.scheduled_tasks(held.tenant_id);
    held.quota := asked;
    held.counted_at := moment;
    held.count_again_at := moment
        + greatest(interval '100 milliseconds', 10 * (clock_timestamp() - began));
    RETURN held;
END
$$;

-- Let in what the quotas of the tenants leave room for, in the transaction that stores it. For each
-- tenant: $2 how many tasks it would store, $3 its quota of scheduled tasks, $4 of submissions a
-- second (null: none). `whole`: all of them, or none. `patience`: milliseconds to wait for others
-- who store for the same tenant. Gives how many may be stored, and what was left before.
CREATE FUNCTION gnomon.admit(
    tenants text[], wanted integer[], quotas bigint[], rates integer[], whole boolean,
    patience integer
) RETURNS TABLE (tenant_id text, passed integer, room bigint, pace integer)
    LANGUAGE plpgsql AS $$
DECLARE
    asked record;
    held gnomon.tenant_room;
    before gnomon.tenant_room;
    moment timestamptz;
    last integer;
BEGIN
    IF cardinality(tenants) = 0 THEN
        RETURN;
    END IF;
    -- Who holds a tenant's row and falls silent must not hold up the tenant for long.
    PERFORM set_config('idle_in_transaction_session_timeout', '5s', true);
    PERFORM set_config('lock_timeout', patience::text, true);
    -- In one order, so that two batches cannot deadlock.
    FOR asked IN
        SELECT * FROM unnest(tenants, wanted, quotas, rates) AS a (tenant, number, quota, rate)
        ORDER BY a.tenant COLLATE "C"
    LOOP
        held := gnomon.hold_room(asked.tenant);
        before := held;
        moment := gnomon.now();
        tenant_id := asked.tenant;
        passed := asked.number;
        pace := NULL;
        IF asked.rate IS NOT NULL THEN
            SELECT coalesce(array_agg(e.at), '{}'), coalesce(array_agg(e.number), '{}'),
                   greatest(0, asked.rate - coalesce(sum(e.number), 0))
            INTO held.moments, held.numbers, pace
            FROM unnest(held.moments, held.numbers) AS e (at, number)
            WHERE e.at > moment - interval '1 second' AND e.at < moment + interval '1 second';
            passed := least(passed, pace);
        END IF;
        IF asked.quota IS NOT NULL AND passed > 0 AND NOT (whole AND passed < asked.number) THEN
            held := gnomon.counted(held, asked.quota, passed, moment);
            passed := greatest(0, least(passed, held.room));
        END IF;
        room := held.room;
        IF whole AND passed < asked.number THEN
            passed := 0;
        END IF;
        IF passed > 0 THEN
            held.room := held.room - passed;
            IF asked.rate IS NOT NULL THEN
                -- Moments within 10 ms are one entry, which counts until its last is a second old.
                last := cardinality(held.moments);
                IF last > 0 AND date_bin('10 milliseconds', held.moments[last], 'epoch')
                    = date_bin('10 milliseconds', moment, 'epoch')
                THEN
                    held.numbers[last] := held.numbers[last] + passed;
                    held.moments[last] := greatest(held.moments[last], moment);
                ELSE
                    held.moments := held.moments || moment;
                    held.numbers := held.numbers || passed;
                END IF;
            END IF;
        END IF;
        IF passed > 0 OR held.counted_at <> before.counted_at THEN
            UPDATE gnomon.tenant_room AS r
            SET room = held.room, quota = held.quota, counted_at = held.counted_at,
                count_again_at = held.count_again_at, moments = held.moments,
                numbers = held.numbers
            WHERE r.tenant_id = asked.tenant;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
