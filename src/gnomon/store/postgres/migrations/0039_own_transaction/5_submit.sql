-- An id that is a UUIDv7 of now, with 74 random bits.
CREATE FUNCTION gnomon.new_task_id(moment timestamptz) RETURNS uuid
    LANGUAGE sql VOLATILE AS $$
    SELECT encode(set_byte(b.bytes, 6, (get_byte(b.bytes, 6) & 15) | 112), 'hex')::uuid
    FROM (
        SELECT overlay(
            uuid_send(gen_random_uuid())
            PLACING substring(int8send(floor(extract(epoch FROM moment) * 1000)::bigint) FROM 3)
            FROM 1 FOR 6
        ) AS bytes
    ) AS b
$$;

-- Null for the schema of types that have none, which every payload satisfies.
CREATE FUNCTION gnomon.schema_digest(schema json) RETURNS text
    LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN schema::text <> 'true' THEN encode(sha256(convert_to(schema::text, 'UTF8')), 'hex') END
$$;

-- The schema that payloads of a type must satisfy, and its digest, which gnomon.submit is told by whoever has
-- checked a payload against it. No row: payloads of the type may be anything.
CREATE FUNCTION gnomon.payload_schema(task_type text, OUT schema text, OUT digest text) RETURNS SETOF record
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT y.schema::text, gnomon.schema_digest(y.schema)
    FROM gnomon.role_grant AS g
    JOIN gnomon.task_type AS y ON y.tenant_id = g.tenant_id
    WHERE g.role = session_user AND y.name = payload_schema.task_type
      AND gnomon.schema_digest(y.schema) IS NOT NULL
$$;
REVOKE EXECUTE ON FUNCTION gnomon.payload_schema(text) FROM PUBLIC;

-- The task that the fields describe, its type's defaults in place of those that are left out: all of its
-- row but its payload.
CREATE FUNCTION gnomon.new_task(fields jsonb, defaults jsonb, moment timestamptz) RETURNS gnomon.task
    LANGUAGE plpgsql AS $$
DECLARE
    v_all jsonb := defaults || fields;
    v_task gnomon.task;
    v_policy jsonb;
    v_latest timestamptz;
    v_delay float8;
    v_jitter float8;
    v_longest constant float8 := 175 * 365.25 * 24 * 3600;
    v_last constant timestamptz := '2199-12-31T23:59:59Z';
BEGIN
    v_task.id := gnomon.new_task_id(moment);
    v_task.task_type := gnomon.text_field(fields, 'task_type', 1, 200);
    v_task.name := gnomon.text_field(fields, 'name', 0, 200);
    v_task.target := gnomon.target_field(fields)::json;
    v_task.lane := coalesce(
        gnomon.choice_field(v_all, 'priority', ARRAY['CRITICAL', 'HIGH', 'MEDIUM', 'LOW']), 2
    );
    v_task.delivery := coalesce(gnomon.choice_field(
        v_all, 'delivery', ARRAY['at_least_once', 'at_most_once', 'exactly_once']
    ), 0);
    v_task.keep_payload := coalesce(
        gnomon.choice_field(v_all, 'keep_payload', ARRAY['always', 'failed', 'never']), 0
    );
    v_task.preemptible := coalesce(gnomon.flag_field(v_all, 'preemptible'), false);
    v_task.log_transitions := coalesce(gnomon.flag_field(defaults, 'log_transitions'), false);
    v_task.timeout_seconds := coalesce(
        gnomon.number_field(v_all, 'timeout_seconds', 0.001, 86400), 30
    );
    v_task.queue := gnomon.text_field(v_all, 'queue', 1, 100);
    v_task.sla_seconds := gnomon.number_field(v_all, 'sla_seconds', 0.001, v_longest);
    v_task.warn_after_seconds := gnomon.number_field(v_all, 'warn_after_seconds', 0.001, 86400);
    v_task.tags := gnomon.tags_field(v_all);
    IF gnomon.text_field(fields, 'retry_of', 32, 36) !~* '^([0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$' THEN
        PERFORM gnomon.refuse('/retry_of', 'must be the id of a task');
    END IF;
    v_task.retry_of := (fields ->> 'retry_of')::uuid;
    v_policy := gnomon.policy_field(v_all);
    IF v_task.delivery = 1 THEN
        IF NOT fields ? 'retry_policy' THEN
            v_policy := '{"max_retries": 0}';
        ELSIF coalesce((v_policy ->> 'max_retries')::integer, 3) > 0 THEN
            PERFORM gnomon.refuse(
                '/retry_policy/max_retries',
                'must be 0: a task that is delivered at_most_once is never tried again'
            );
        END IF;
        IF (fields -> 'preemptible')::boolean THEN
            PERFORM gnomon.refuse(
                '/preemptible',
                'a task that is delivered at_most_once cannot be preempted once it has started'
            );
        END IF;
        v_task.preemptible := false;
    END IF;
    v_task.retries_left := coalesce((v_policy ->> 'max_retries')::integer, 3);
    v_task.retry_policy := nullif(v_policy, '{}')::json;

    v_delay := gnomon.number_field(fields, 'delay_seconds', 0, v_longest);
    v_task.execute_at := gnomon.moment_field(fields, 'execute_at');
    IF v_delay IS NOT NULL AND v_task.execute_at IS NOT NULL THEN
        PERFORM gnomon.refuse('/delay_seconds', 'give execute_at or delay_seconds, not both');
    END IF;
    v_task.execute_at := coalesce(
        v_task.execute_at, moment + make_interval(secs => v_delay), moment
    );
    IF v_task.execute_at > v_last THEN
        PERFORM gnomon.refuse('/delay_seconds', 'must end in the years 1971 to 2199 of UTC');
    END IF;
    v_task.due_at := greatest(v_task.execute_at, moment);
    v_latest := v_task.due_at;
    v_jitter := coalesce(gnomon.number_field(v_all, 'jitter_seconds', 0, 86400), 0);
    IF v_jitter > 0 THEN
        v_latest := v_task.due_at + make_interval(secs => v_jitter);
        v_task.due_at := least(
            v_task.due_at + floor(random() * v_jitter * 1000) * interval '1 millisecond', v_last
        );
        v_task.execute_at := v_task.due_at;
    END IF;
    IF fields ? 'expires_at' THEN
        v_task.expires_at := gnomon.moment_field(fields, 'expires_at');
        IF v_task.expires_at <= v_latest THEN
            PERFORM gnomon.refuse(
                '/expires_at', 'must be later than the start, '
                    || to_char(v_latest AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
            );
        END IF;
    ELSE
        v_task.expires_at := least(
            v_task.due_at + make_interval(secs => (defaults ->> 'expires_after_seconds')::float8),
            v_last
        );
        IF defaults ->> 'expires_after_seconds' IS NULL THEN
            v_task.expires_at := NULL;
        END IF;
    END IF;
    RETURN v_task;
END
$$;

-- The origin of a task; null where there is none. A trace that is not sampled, or malformed, is none.
CREATE FUNCTION gnomon.origin_field(fields jsonb, traceparent text) RETURNS json
    LANGUAGE plpgsql AS $$
DECLARE
    v_correlation constant text := gnomon.text_field(fields, 'correlation_id', 1, 128);
    v_trace text;
BEGIN
    IF v_correlation !~ '^[!-~]+$' THEN
        PERFORM gnomon.refuse(
            '/correlation_id', 'must be 1 to 128 visible ASCII characters, no spaces'
        );
    END IF;
    IF traceparent ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf]$'
        AND traceparent !~ '^00-(0{32}|[0-9a-f]{32}-0{16})-' THEN
        v_trace := left(traceparent, 53) || '01';
    END IF;
    RETURN nullif(jsonb_strip_nulls(jsonb_build_object(
        'correlation_id', v_correlation, 'traceparent', v_trace
    )), '{}')::json;
END
$$;

-- What a request with an idempotency key is told apart by: all that it says, but its key and its correlation
-- id.
CREATE FUNCTION gnomon.submission_fingerprint(fields jsonb, payload json) RETURNS bytea
    LANGUAGE sql STABLE AS $$
    SELECT sha256(convert_to(
        'gnomon.submit' || (fields - 'idempotency_key' - 'correlation_id')::text
            || coalesce(payload::jsonb::text, ''),
        'UTF8'
    ))
$$;

-- The task that was submitted before with this key and the same fields, if one was. SQLSTATE GN104: the
-- fields differ.
CREATE FUNCTION gnomon.submitted_before(tenant text, key_given text, printed bytea) RETURNS uuid
    LANGUAGE plpgsql AS $$
DECLARE
    v_task uuid;
    v_same boolean;
BEGIN
    SELECT i.task_id, i.fingerprint = printed INTO v_task, v_same
    FROM gnomon.idempotency AS i
    WHERE i.tenant_id = tenant AND i.key = key_given AND i.expires_at > gnomon.now();
    IF NOT v_same THEN
        RAISE EXCEPTION 'the idempotency key % was used before with a different task', to_json(key_given)
            USING ERRCODE = 'GN104', HINT = 'Use a new key for a new task.';
    END IF;
    RETURN v_task;
END
$$;

-- Store a task, and everything that is stored with it.
CREATE FUNCTION gnomon.store_task(task gnomon.task, payload json, size bigint) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO gnomon.task (
        tenant_id, id, lane, delivery, execute_at, due_at, expires_at, retries_left, timeout_seconds,
        payload_size, task_type, name, target, payload, retry_policy, tags, idempotency_key, created_by,
        retry_of, preemptible, queue, limit_keys, keep_payload, sla_seconds, warn_after_seconds, origin,
        log_transitions
    )
    VALUES (
        task.tenant_id, task.id, task.lane, task.delivery, task.execute_at,
        greatest(task.due_at, gnomon.now()), task.expires_at, task.retries_left,
        task.timeout_seconds, task.payload_size, task.task_type, task.name, task.target,
        CASE WHEN task.payload_size IS NULL THEN store_task.payload END, task.retry_policy, task.tags,
        task.idempotency_key, task.created_by, task.retry_of, task.preemptible, task.queue, task.limit_keys,
        task.keep_payload, task.sla_seconds, task.warn_after_seconds, task.origin, task.log_transitions
    );
    IF task.payload_size IS NOT NULL THEN
        INSERT INTO gnomon.task_payload (tenant_id, task_id, payload)
        VALUES (task.tenant_id, task.id, store_task.payload);
    END IF;
    IF task.retry_of IS NOT NULL THEN
        INSERT INTO gnomon.task_copy (tenant_id, original, id)
        VALUES (task.tenant_id, task.retry_of, task.id);
    END IF;
    INSERT INTO gnomon.usage AS u (tenant_id, day, session, submissions, stored_bytes, held_bytes)
    VALUES (
        task.tenant_id, (gnomon.now() AT TIME ZONE 'UTC')::date, pg_backend_pid(), 1,
        coalesce(octet_length(store_task.payload::text), 0), size
    )
    ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE
    SET submissions = u.submissions + excluded.submissions,
        stored_bytes = u.stored_bytes + excluded.stored_bytes,
        held_bytes = u.held_bytes + excluded.held_bytes;
    INSERT INTO gnomon.uncounted_submission (tenant_id, at, task_type, lane)
    VALUES (task.tenant_id, gnomon.now(), task.task_type, task.lane);
END
$$;

-- How many bytes of a tenant's quota a new task takes: as gnomon.store.postgres.usage.sizes counts them.
CREATE FUNCTION gnomon.task_size(task gnomon.task, payload json) RETURNS bigint
    LANGUAGE sql STABLE AS $$
    SELECT 500 + octet_length(task.target::text) + coalesce(octet_length(payload::text), 0)
        + coalesce(octet_length(task.name), 0) + coalesce(octet_length(task.tags::text), 0)
        + coalesce(2 * octet_length(task.idempotency_key) + 300, 0)
        + coalesce(60 + octet_length(task.origin::text), 0)
        + CASE WHEN task.log_transitions THEN 800 ELSE 0 END
$$;

-- Submit a task in the transaction of the caller, and give its id. `body`: as of POST /api/v1/tasks.
-- `checked_schema`: the digest of the payload schema that the caller has checked the payload against, where the
-- type has one (see gnomon.payload_schema). The tenant is that of the caller's login: see gnomon.grant_role.
-- Nothing that it locks makes others wait before the transaction ends, but for those with the same idempotency key.
CREATE FUNCTION gnomon.submit(
    body json, checked_schema text DEFAULT NULL, traceparent text DEFAULT NULL
) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
DECLARE
    v_moment constant timestamptz := gnomon.now();
    v_payload constant json := CASE WHEN json_typeof(body) = 'object' THEN body -> 'payload' END;
    v_fields jsonb;
    v_grant gnomon.role_grant;
    v_rules gnomon.submission_rules;
    v_tenant gnomon.tenant;
    v_type gnomon.task_type;
    v_task gnomon.task;
    v_before uuid;
    v_printed bytea;
    v_size bigint;
BEGIN
    SELECT * INTO v_grant FROM gnomon.role_grant AS g WHERE g.role = session_user;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the role % may not submit tasks: it has no tenant', quote_ident(session_user)
            USING ERRCODE = 'GN102',
                HINT = format('Let an operator run: gnomon tenants grant-role TENANT %s', session_user);
    END IF;
    SELECT * INTO STRICT v_rules FROM gnomon.submission_rules;
    SELECT * INTO STRICT v_tenant FROM gnomon.tenant AS t WHERE t.id = v_grant.tenant_id;
    IF json_typeof(body) IS DISTINCT FROM 'object' THEN
        PERFORM gnomon.refuse('', 'a task must be a JSON object, as in {"task_type": "send_email"}');
    END IF;
    IF octet_length(v_payload::text) > v_rules.payload_bytes THEN
        PERFORM gnomon.refuse('/payload', format(
            'is %s bytes; at most %s are kept. Send a reference instead',
            octet_length(v_payload::text), v_rules.payload_bytes
        ));
    ELSIF octet_length(body::text) > v_rules.payload_bytes + 65536 THEN
        PERFORM gnomon.refuse('', 'is too large');
    END IF;
    SELECT coalesce(jsonb_object_agg(e.key, e.value::jsonb), '{}') INTO v_fields
    FROM json_each(body) AS e WHERE e.key <> 'payload';
    PERFORM gnomon.check_fields(v_fields, ARRAY[
        'task_type', 'target', 'callback_url', 'callback_method', 'priority', 'delivery', 'retry_policy',
        'timeout_seconds', 'tags', 'queue', 'preemptible', 'keep_payload', 'sla_seconds',
        'warn_after_seconds', 'name', 'payload', 'execute_at', 'delay_seconds', 'jitter_seconds',
        'expires_at', 'idempotency_key', 'correlation_id', 'retry_of'
    ], ARRAY[
        'target', 'callback_url', 'callback_method', 'queue', 'sla_seconds', 'warn_after_seconds', 'name',
        'execute_at', 'delay_seconds', 'expires_at', 'idempotency_key', 'correlation_id', 'retry_of'
    ], '');
    IF NOT v_fields ? 'task_type' THEN
        PERFORM gnomon.refuse('/task_type', 'must be given');
    END IF;
    SELECT * INTO v_type FROM gnomon.task_type AS y
    WHERE y.tenant_id = v_tenant.id AND y.name = v_fields ->> 'task_type';

    v_task := gnomon.new_task(v_fields, coalesce(v_type.defaults, '{}')::jsonb, v_moment);
    v_task.tenant_id := v_tenant.id;
    v_task.created_by := 'role ' || session_user;
    v_task.origin := gnomon.origin_field(v_fields, traceparent);
    v_task.idempotency_key := gnomon.text_field(v_fields, 'idempotency_key', 1, 255);
    IF v_task.idempotency_key <> btrim(v_task.idempotency_key) THEN
        PERFORM gnomon.refuse('/idempotency_key', 'must not have a space at its ends');
    END IF;
    IF v_task.task_type <> ALL (v_grant.task_types) THEN
        PERFORM gnomon.refuse('/task_type', format(
            'is %s, but the role %s is only for: %s', to_json(v_task.task_type), session_user,
            array_to_string(v_grant.task_types[:20], ', ')
        ), 'GN102');
    ELSIF NOT gnomon.is_allowed(v_task.target::jsonb, v_grant.functions, v_grant.hosts) THEN
        PERFORM gnomon.refuse('/target', 'is not allowed to the role ' || session_user, 'GN102');
    END IF;
    IF v_task.idempotency_key IS NOT NULL THEN
        v_printed := gnomon.submission_fingerprint(v_fields, v_payload);
        v_before := gnomon.submitted_before(v_tenant.id, v_task.idempotency_key, v_printed);
        IF v_before IS NOT NULL THEN
            RETURN v_before;
        END IF;
    END IF;
    IF NOT gnomon.is_allowed(v_task.target::jsonb, v_tenant.functions, v_tenant.hosts) THEN
        PERFORM gnomon.refuse('/target', 'is not allowed to the tenant', 'GN102');
    END IF;
    IF gnomon.schema_digest(v_type.schema) IS DISTINCT FROM checked_schema
        AND gnomon.schema_digest(v_type.schema) IS NOT NULL THEN
        RAISE EXCEPTION '/payload: the type % has a payload schema, and this payload was not checked against it',
            to_json(v_task.task_type)
            USING ERRCODE = 'GN105',
                HINT = 'Submit it by the SDK or over HTTP; or check it against what gnomon.payload_schema gives,'
                    ' and pass the digest as checked_schema.';
    END IF;
    IF EXISTS (SELECT FROM gnomon.revision AS r WHERE r.full_until > v_moment) THEN
        RAISE EXCEPTION 'no task is stored now: %', (SELECT full_why FROM gnomon.revision)
            USING ERRCODE = 'GN106', HINT = 'Try again once the database has room.';
    END IF;
    v_task.payload := CASE WHEN json_typeof(v_payload) <> 'null' THEN v_payload END;
    v_task.payload_size := CASE WHEN octet_length(v_task.payload::text) > 2048
        THEN octet_length(v_task.payload::text) END;
    v_task.limit_keys := gnomon.limit_keys_of(
        v_tenant.id, v_task.task_type, v_task.queue, v_task.payload
    );
    v_size := gnomon.task_size(v_task, v_task.payload);
    PERFORM gnomon.check_quotas(
        v_tenant.id, gnomon.quotas_of(v_tenant.plan, v_tenant.quotas, v_rules.plans),
        octet_length(v_task.payload::text), v_size
    );
    IF v_task.idempotency_key IS NOT NULL THEN
        INSERT INTO gnomon.idempotency AS i (tenant_id, key, fingerprint, task_id, answer, expires_at)
        VALUES (
            v_tenant.id, v_task.idempotency_key, v_printed, v_task.id,
            json_build_object('task_id', v_task.id),
            v_moment + make_interval(secs => v_rules.idempotency_seconds)
        )
        ON CONFLICT (tenant_id, key) DO UPDATE
        SET fingerprint = excluded.fingerprint, task_id = excluded.task_id, answer = excluded.answer,
            expires_at = excluded.expires_at
        WHERE i.expires_at <= gnomon.now();
        IF NOT FOUND THEN  -- somebody else was first, and we have waited for their end
            RETURN gnomon.submitted_before(v_tenant.id, v_task.idempotency_key, v_printed);
        END IF;
    END IF;
    PERFORM gnomon.store_task(v_task, v_task.payload, v_size);
    PERFORM gnomon.leave_begin(least(v_moment, transaction_timestamp()));
    RETURN v_task.id;
END
$$;
REVOKE EXECUTE ON FUNCTION gnomon.submit(json, text, text) FROM PUBLIC;

-- A moment as the key of a lock: seconds since 2000.
CREATE FUNCTION gnomon.began_key(moment timestamptz) RETURNS integer
    LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(least(floor(extract(epoch FROM moment)) - 946684800, 2147483647), -2147483648)::integer
$$;

-- Leave a lock by which nodes see since when they must look for what this transaction has stored, once it ends:
-- they may not see when the transactions of other roles began. It is shared, and never waited for: every role
-- of the database can lock any key for itself alone. An earlier second will do as well.
CREATE FUNCTION gnomon.leave_begin(moment timestamptz) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    FOR v_earlier IN 0..60 LOOP
        IF pg_try_advisory_xact_lock_shared(1735550318, gnomon.began_key(moment) - v_earlier) THEN
            RETURN;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'no task is stored now: somebody holds the advisory locks (1735550318, n), which are for'
        ' gnomon.submit alone' USING ERRCODE = 'GN106', HINT = 'Find them in pg_locks, and end their sessions.';
END
$$;

-- Tell nodes that tasks are due, which this session's role has submitted and committed: they start at once, and
-- not when a node looks for them. Not in the transaction that submits: a NOTIFY makes all commits queue.
CREATE FUNCTION gnomon.hint(task_ids uuid[]) RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT pg_notify('gnomon_due', string_agg(line, E'\n'))
    FROM (
        SELECT concat_ws(
            E'\t', t.tenant_id, replace(t.id::text, '-', ''),
            (extract(epoch FROM t.due_at) * 1000000)::bigint, t.lane, 0, t.flow,
            (t.target ->> 'type' = 'python')::integer
        ) AS line
        FROM gnomon.role_grant AS g
        JOIN gnomon.task AS t ON t.tenant_id = g.tenant_id AND t.id = ANY (task_ids[:50])
        WHERE g.role = session_user AND t.state = 0 AND t.due_at < gnomon.now() + interval '1 minute'
    ) AS due
    HAVING count(*) > 0
$$;
REVOKE EXECUTE ON FUNCTION gnomon.hint(uuid[]) FROM PUBLIC;
