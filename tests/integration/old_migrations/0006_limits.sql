-- Limiters: how many tasks of a tenant may run at once, or start within a time.
CREATE TABLE gnomon.limiter (
    tenant_id   text COLLATE "C" NOT NULL REFERENCES gnomon.tenant (id) ON DELETE CASCADE,
    name        text COLLATE "C" NOT NULL,
    task_type   text,
    queue       text,
    key         text,                   -- a JSON pointer into the payload
    concurrency integer CHECK (concurrency >= 0),
    rate        integer CHECK (rate >= 0),
    per_seconds float8 NOT NULL DEFAULT 1 CHECK (per_seconds > 0),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, name),
    CONSTRAINT limits_something CHECK (concurrency IS NOT NULL OR rate IS NOT NULL)
);
CREATE TRIGGER revise AFTER INSERT OR UPDATE OR DELETE ON gnomon.limiter
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise();

-- What is limited together. Whoever counts what is given of a bucket locks its row first.
CREATE TABLE gnomon.limit_bucket (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id text COLLATE "C" NOT NULL,
    limiter   text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,  -- '' where the limiter has no key
    UNIQUE (tenant_id, limiter, key)
);

-- Permits that nodes hold: each lets one task of the bucket run. All of a bucket together are never
-- more than the limiter's concurrency, and a node runs no more than it holds.
CREATE TABLE gnomon.limit_lease (
    bucket        bigint NOT NULL REFERENCES gnomon.limit_bucket (id) ON DELETE CASCADE,
    node          uuid NOT NULL,        -- an incarnation
    turn          bigint NOT NULL,      -- of the call that wrote this; what is older comes too late
    permits       integer NOT NULL CHECK (permits >= 0),
    seen_at       timestamptz NOT NULL, -- when the node last asked
    held_since    timestamptz,          -- since when it has held any
    permits_since timestamptz,          -- since when it waits for permits, where it does
    starts_since  timestamptz,          -- and for starts
    PRIMARY KEY (bucket, node)
) WITH (fillfactor = 50);

-- Who waits, for those who hold something to hear of it.
CREATE INDEX limit_lease_waiting ON gnomon.limit_lease (bucket)
    WHERE permits_since IS NOT NULL OR starts_since IS NOT NULL;

-- Starts that were granted: usable until `until`, so they count for the time of the limiter longer.
CREATE TABLE gnomon.limit_window (
    bucket bigint NOT NULL REFERENCES gnomon.limit_bucket (id) ON DELETE CASCADE,
    until  timestamptz NOT NULL,
    starts integer NOT NULL,
    PRIMARY KEY (bucket, until)
) WITH (fillfactor = 50);

-- Remove the leases of dead nodes under a bucket that the caller has locked. A lease counts for as
-- long as a task may be running under it. Every claim locks the row of its node (FOR KEY SHARE) and
-- makes sure that it is alive: so while we hold that row no claim is under way, and later ones will
-- see that the node is dead. Where it is held, somebody comes back.
CREATE FUNCTION gnomon.drop_dead_leases(p_bucket bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_node uuid;
BEGIN
    FOR v_node IN
        SELECT l.node FROM gnomon.limit_lease AS l
        WHERE l.bucket = p_bucket
          AND NOT EXISTS (SELECT FROM gnomon.node AS n WHERE n.incarnation = l.node AND NOT n.dead)
    LOOP
        PERFORM FROM gnomon.node AS n WHERE n.incarnation = v_node FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND AND EXISTS (SELECT FROM gnomon.node WHERE incarnation = v_node);
        DELETE FROM gnomon.limit_lease AS l
        WHERE l.bucket = p_bucket AND l.node = v_node
          AND NOT EXISTS (SELECT FROM gnomon.task AS t WHERE t.state = 1 AND t.node = v_node);
    END LOOP;
END
$$;

-- One node's permits and starts of many buckets, in the order of their names: what it keeps and wants
-- against what it may have. Runs in READ COMMITTED, where each statement of a function sees all that
-- was committed before it: so what is read after the lock of a bucket is the truth about it.
--
-- Permits: when others wait, each node may have an equal share; what is over goes to whoever asks.
-- Where there are more nodes than permits, each holds one for a second at a time, the longest
-- waiting first. A lease shrinks only to what its node keeps, because the answer may be lost: a node
-- that is allowed less than it holds uses no more, and returns the rest with its next call.
-- Starts: granted as far as those of the last `per_seconds` leave room, in equal shares as well, also
-- a little ahead: then they are good from when the ones before them leave the window. Each counts as
-- if it were made as late as it can be, until the node says when it was made, or that it will not be.
CREATE FUNCTION gnomon.exchange_permits(
    p_node uuid,
    p_turn bigint,                      -- grows with every call of a node
    p_tenants text[], p_limiters text[], p_keys text[],
    p_rates integer[],                  -- of what is no row of gnomon.limiter: starts a minute
    p_kept integer[],                   -- permits that are in use, or may be before the answer
    p_wanted integer[],                 -- permits, those included
    p_starts integer[],                 -- more starts wanted,
    p_seconds float8[],                 -- good for so long at the least
    p_told_places integer[],            -- of starts that were granted before, place by place:
    p_told_until timestamptz[],         -- of those that are good until then
    p_told_starts integer[],            -- so many
    p_told_at timestamptz[]             -- were made by then; NULL: will not be made
) RETURNS TABLE (
    place integer, now timestamptz, permits integer, allowed integer,
    contended boolean,                  -- others wait
    again float8,                       -- seconds until there may be more starts, where some lack
    starts integer[], since timestamptz[], until timestamptz[]  -- so many, good from when to when
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_bucket bigint;
    v_now timestamptz;
    v_limit integer;
    v_rate integer;
    v_per float8;
    v_own gnomon.limit_lease;
    v_others record;
    v_share integer;
    v_bound bigint;
    v_grain float8;
    v_slice float8;
    v_window interval;
    v_told integer := 1;
    v_free bigint;
    v_ahead interval;
    v_want bigint;
    v_row record;
    v_until timestamptz;
BEGIN
    FOR i IN 1 .. cardinality(p_tenants) LOOP
        LOOP
            SELECT b.id INTO v_bucket FROM gnomon.limit_bucket AS b
            WHERE b.tenant_id = p_tenants[i] AND b.limiter = p_limiters[i] AND b.key = p_keys[i]
            FOR UPDATE;
            EXIT WHEN FOUND;
            INSERT INTO gnomon.limit_bucket (tenant_id, limiter, key)
            VALUES (p_tenants[i], p_limiters[i], p_keys[i])
            ON CONFLICT DO NOTHING;
        END LOOP;
        v_now := gnomon.now();
        SELECT m.concurrency, m.rate, m.per_seconds INTO v_limit, v_rate, v_per
        FROM gnomon.limiter AS m
        WHERE m.tenant_id = p_tenants[i] AND m.name = p_limiters[i];
        IF p_rates[i] IS NOT NULL THEN
            v_rate := p_rates[i];
            v_per := 60;
        END IF;
        SELECT l.* INTO v_own FROM gnomon.limit_lease AS l
        WHERE l.bucket = v_bucket AND l.node = p_node;
        CONTINUE WHEN v_own.turn >= p_turn;
        IF EXISTS (
            SELECT FROM gnomon.limit_lease AS l WHERE l.bucket = v_bucket AND l.node <> p_node
        ) THEN
            PERFORM gnomon.drop_dead_leases(v_bucket);
        END IF;

        -- One that waits and does not come for its turn is waited for no longer.
        SELECT
            coalesce(sum(l.permits), 0) AS held,
            count(*) FILTER (WHERE l.permits > 0 OR w.permits) AS nodes,
            coalesce(bool_or(w.permits), false) AS wait,
            count(*) FILTER (WHERE w.permits AND l.permits = 0) AS empty_handed,
            count(*) FILTER (WHERE w.permits AND l.permits = 0
                AND l.permits_since < coalesce(v_own.permits_since, v_now)) AS earlier,
            count(*) FILTER (WHERE w.starts) AS want_starts,
            count(*) FILTER (WHERE w.starts
                AND l.starts_since < coalesce(v_own.starts_since, v_now)) AS earlier_starts
        INTO v_others
        FROM gnomon.limit_lease AS l
        CROSS JOIN LATERAL (
            SELECT l.permits_since IS NOT NULL AND l.seen_at > v_now - interval '2 s' AS permits,
                l.starts_since IS NOT NULL AND l.seen_at > v_now - interval '2 s' AS starts
        ) AS w
        WHERE l.bucket = v_bucket AND l.node <> p_node;

        -- Permits.
        IF v_limit IS NULL THEN
            v_bound := p_wanted[i];
        ELSIF v_limit > v_others.nodes THEN
            v_share := v_limit / (v_others.nodes + 1);
            SELECT v_limit - coalesce(sum(greatest(l.permits, CASE
                WHEN l.permits_since IS NOT NULL AND l.seen_at > v_now - interval '2 s'
                THEN v_share ELSE 0 END)), 0)
            INTO v_bound
            FROM gnomon.limit_lease AS l
            WHERE l.bucket = v_bucket AND l.node <> p_node;
        ELSIF v_own.permits > 0 THEN
            v_bound := least(1, v_limit - v_others.held);
            IF v_others.empty_handed > 0 AND v_own.held_since < v_now - interval '1 s' THEN
                v_bound := 0;
                v_own.permits_since := v_now;  -- the turn is over: back to the end of the queue
            END IF;
        ELSE
            v_bound := least(1, v_limit - v_others.held - v_others.earlier);
        END IF;
        place := i;
        allowed := greatest(0, least(p_wanted[i], v_bound));
        permits := greatest(allowed, least(coalesce(v_own.permits, 0), p_kept[i]));

        -- Starts. Those that will not be made are as if they had not been granted.
        starts := '{}';
        since := '{}';
        until := '{}';
        again := 0;
        v_want := 0;
        IF v_rate IS NOT NULL THEN
            v_window := make_interval(secs => v_per);
            v_slice := greatest(v_per / 20, least(v_per, 1), p_seconds[i]);
            v_grain := v_per / 128;  -- rounded up to that, so that there are not too many rows
            WHILE p_told_places[v_told] < i LOOP
                v_told := v_told + 1;
            END LOOP;
            WHILE p_told_places[v_told] = i LOOP
                UPDATE gnomon.limit_window AS w SET starts = w.starts - p_told_starts[v_told]
                WHERE w.bucket = v_bucket AND w.until = p_told_until[v_told]
                  AND w.starts >= p_told_starts[v_told];
                IF FOUND AND p_told_at[v_told] IS NOT NULL THEN
                    INSERT INTO gnomon.limit_window AS w (bucket, until, starts)
                    VALUES (
                        v_bucket,
                        least(p_told_until[v_told], to_timestamp(
                            ceil(extract(epoch FROM p_told_at[v_told])::float8 / v_grain) * v_grain
                        )),
                        p_told_starts[v_told]
                    )
                    ON CONFLICT (bucket, until) DO UPDATE SET starts = w.starts + excluded.starts;
                END IF;
                v_told := v_told + 1;
            END LOOP;
            DELETE FROM gnomon.limit_window AS w
            WHERE w.bucket = v_bucket AND (w.until <= v_now - v_window OR w.starts = 0);
            v_want := p_starts[i];
            again := least(1, greatest(least(v_per / 10, 0.125), v_per / 100));
            v_ahead := make_interval(secs => again * 2);
            SELECT v_rate - coalesce(sum(w.starts), 0) AS now, v_rate - coalesce(
                sum(w.starts) FILTER (WHERE w.until > v_now + v_ahead - v_window), 0) AS soon
            INTO v_row
            FROM gnomon.limit_window AS w WHERE w.bucket = v_bucket;
            v_free := v_row.now;
            v_bound := v_row.soon;
            IF v_others.want_starts > 0 THEN
                v_share := greatest(1, ceil(v_bound / (v_others.want_starts + 1.0)));
                v_bound := least(v_share, v_bound - v_others.earlier_starts * v_share);
            END IF;
            v_bound := greatest(0, least(v_want, v_bound));
            v_want := v_want - v_bound;
            FOR v_row IN
                SELECT v_now AS moment, 0 AS starts
                UNION ALL
                SELECT w.until + v_window, w.starts FROM gnomon.limit_window AS w
                WHERE w.bucket = v_bucket AND w.until <= v_now + v_ahead - v_window
                ORDER BY 1
            LOOP
                EXIT WHEN v_bound = 0;
                v_free := v_free + v_row.starts;
                CONTINUE WHEN v_free <= 0;
                starts := starts || least(v_free, v_bound)::integer;
                since := since || v_row.moment;
                v_until := to_timestamp((floor(
                    extract(epoch FROM v_row.moment)::float8 / v_slice * 4) + 5) * v_slice / 4);
                until := until || v_until;
                INSERT INTO gnomon.limit_window AS w (bucket, until, starts)
                VALUES (v_bucket, v_until, least(v_free, v_bound))
                ON CONFLICT (bucket, until) DO UPDATE SET starts = w.starts + excluded.starts;
                v_bound := v_bound - least(v_free, v_bound);
                v_free := 0;
            END LOOP;
            v_want := v_want + v_bound;
        END IF;

        INSERT INTO gnomon.limit_lease AS l (
            bucket, node, turn, permits, seen_at, held_since, permits_since, starts_since
        )
        VALUES (
            v_bucket, p_node, p_turn, permits, v_now,
            CASE WHEN permits > 0 THEN coalesce(v_own.held_since, v_now) END,
            CASE WHEN p_wanted[i] > allowed THEN coalesce(v_own.permits_since, v_now) END,
            CASE WHEN v_want > 0
                THEN CASE WHEN starts = '{}' THEN coalesce(v_own.starts_since, v_now) ELSE v_now END END
        )
        ON CONFLICT (bucket, node) DO UPDATE
        SET turn = excluded.turn, permits = excluded.permits, seen_at = excluded.seen_at,
            held_since = excluded.held_since, permits_since = excluded.permits_since,
            starts_since = excluded.starts_since;
        now := v_now;
        contended := v_others.wait OR v_others.want_starts > 0;
        RETURN NEXT;
    END LOOP;
END
$$;

-- Forget buckets that nobody has asked for in an hour, and that count nothing.
CREATE FUNCTION gnomon.forget_buckets(p_most integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_long_ago timestamptz := gnomon.now() - interval '1 hour';
    v_chosen bigint[];
    v_gone bigint;
BEGIN
    -- First the lock, then the truth: see gnomon.exchange_permits.
    SELECT array_agg(c.id) INTO v_chosen
    FROM (
        SELECT b.id FROM gnomon.limit_bucket AS b
        WHERE NOT EXISTS (
            SELECT FROM gnomon.limit_lease AS l WHERE l.bucket = b.id AND l.seen_at > v_long_ago
        )
        LIMIT p_most
        FOR UPDATE SKIP LOCKED
    ) AS c;
    PERFORM gnomon.drop_dead_leases(chosen) FROM unnest(v_chosen) AS chosen;
    DELETE FROM gnomon.limit_bucket AS b
    WHERE b.id = ANY (v_chosen)
      AND NOT EXISTS (
          SELECT FROM gnomon.limit_lease AS l
          WHERE l.bucket = b.id AND (l.permits > 0 OR l.seen_at > v_long_ago)
      )
      AND NOT EXISTS (
          SELECT FROM gnomon.limit_window AS w
          LEFT JOIN gnomon.limiter AS m ON m.tenant_id = b.tenant_id AND m.name = b.limiter
          WHERE w.bucket = b.id
            AND w.until > gnomon.now() - make_interval(secs => coalesce(m.per_seconds, 60))
      );
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    RETURN v_gone;
END
$$;
