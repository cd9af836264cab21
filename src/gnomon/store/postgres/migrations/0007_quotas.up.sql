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

-- Let in what the quotas of the tenants leave room for, in the transaction that stores it. The
-- tenants are in order, so that two batches cannot deadlock. For each of them: how many tasks it
-- would store, its quota of scheduled tasks, and of submissions a second (null: none). `whole`: all
-- of them, or none. `patience`: milliseconds to wait for others who store for the same tenant. Gives
-- how many may be stored, and what was left before.
CREATE FUNCTION gnomon.admit(
    tenants text[], wanted integer[], quotas bigint[], rates integer[], whole boolean,
    patience integer
) RETURNS TABLE (tenant_id text, passed integer, room bigint, pace integer)
    LANGUAGE plpgsql AS $$
DECLARE
    held gnomon.tenant_room;
    moment timestamptz;
    last integer;
    began timestamptz;
    counted boolean;
BEGIN
    IF cardinality(tenants) = 0 THEN
        RETURN;
    END IF;
    -- Who holds a tenant's row and falls silent must not hold up the tenant for long.
    PERFORM set_config('idle_in_transaction_session_timeout', '5s', true),
        set_config('lock_timeout', patience::text, true);
    FOR i IN 1 .. cardinality(tenants) LOOP
        tenant_id := tenants[i];
        passed := wanted[i];
        pace := NULL;
        counted := false;
        LOOP
            SELECT * INTO held FROM gnomon.tenant_room AS r WHERE r.tenant_id = tenants[i] FOR UPDATE;
            EXIT WHEN FOUND;
            INSERT INTO gnomon.tenant_room (tenant_id, distrusted_until)
            VALUES (tenants[i], gnomon.now() + interval '2 seconds')
            ON CONFLICT DO NOTHING;
        END LOOP;
        moment := gnomon.now();
        IF rates[i] IS NOT NULL THEN
            pace := rates[i];
            IF held.moments <> '{}' THEN
                SELECT coalesce(array_agg(e.at), '{}'), coalesce(array_agg(e.number), '{}'),
                       greatest(0, rates[i] - coalesce(sum(e.number), 0))
                INTO held.moments, held.numbers, pace
                FROM unnest(held.moments, held.numbers) AS e (at, number)
                WHERE e.at > moment - interval '1 second' AND e.at < moment + interval '1 second';
            END IF;
            passed := least(passed, pace);
        END IF;
        IF quotas[i] IS NOT NULL AND passed > 0 AND NOT (whole AND passed < wanted[i]) THEN
            -- Count where the room is not known, is known for another quota, or does not suffice. A
            -- tenant at its quota is not counted for every refusal: no sooner than after 100 ms, and
            -- ten times as long as the last count took.
            IF held.quota IS DISTINCT FROM quotas[i]
                OR held.counted_at < held.distrusted_until
                OR held.counted_at NOT BETWEEN moment - interval '1 minute' AND moment
                OR (held.room < passed AND moment > held.count_again_at)
            THEN
                counted := true;
                began := clock_timestamp();
                held.room := quotas[i] - gnomon.scheduled_tasks(tenants[i]);
                held.count_again_at := moment
                    + greatest(interval '100 milliseconds', 10 * (clock_timestamp() - began));
            END IF;
            passed := greatest(0, least(passed, held.room));
        END IF;
        room := held.room;
        IF whole AND passed < wanted[i] THEN
            passed := 0;
        END IF;
        IF rates[i] IS NOT NULL AND passed > 0 THEN
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
        IF counted THEN
            UPDATE gnomon.tenant_room AS r
            SET room = held.room - passed, quota = quotas[i], counted_at = moment,
                count_again_at = held.count_again_at, moments = held.moments,
                numbers = held.numbers
            WHERE r.tenant_id = tenants[i];
        ELSIF passed > 0 THEN
            UPDATE gnomon.tenant_room AS r
            SET room = held.room - passed, moments = held.moments, numbers = held.numbers
            WHERE r.tenant_id = tenants[i];
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
