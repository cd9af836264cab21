-- The quotas of a tenant: those of its plan, and what differs from it. A quota that cannot be read is
-- that of the plan; a plan that nobody knows is the standard one.
CREATE FUNCTION gnomon.quotas_of(plan text, own json, plans json) RETURNS jsonb
    LANGUAGE sql STABLE AS $$
    SELECT coalesce(plans -> plan, plans -> 'standard')::jsonb || coalesce((
        SELECT jsonb_object_agg(e.key, e.value)
        FROM jsonb_each(CASE WHEN json_typeof(own) = 'object' THEN own::jsonb END) AS e
        WHERE jsonb_typeof(e.value) IN ('number', 'null')
    ), '{}')
$$;

-- How many tasks a tenant may still store before its quota scheduled_tasks is reached. It locks nothing:
-- what transactions that are open now have stored is not in it.
CREATE FUNCTION gnomon.left_room(tenant text, asked bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    v_moment constant timestamptz := gnomon.now();
    v_room bigint;
    v_known boolean;
BEGIN
    SELECT sum(r.room), bool_and(gnomon.is_known(r, asked, v_moment)) INTO v_room, v_known
    FROM gnomon.tenant_room AS r WHERE r.tenant_id = tenant;
    IF v_known AND v_room > 0 THEN
        v_room := v_room - (
            SELECT count(*) FROM (
                SELECT FROM gnomon.uncounted_submission AS u WHERE u.tenant_id = tenant LIMIT v_room
            ) AS found
        );
    END IF;
    IF v_known AND v_room > 0 THEN
        RETURN v_room;
    END IF;
    RETURN asked - (
        SELECT count(*) FROM (
            SELECT FROM gnomon.task AS t
            WHERE t.tenant_id = tenant AND t.state < 4 AND t.cron_job_id IS NULL LIMIT asked
        ) AS found
    );
END
$$;

-- Refuse a submission that is over a quota: SQLSTATE GN103.
CREATE FUNCTION gnomon.check_quotas(tenant text, quotas jsonb, payload_size integer, size bigint)
    RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    v_over text;
    v_used bigint;
BEGIN
    IF payload_size > (quotas ->> 'payload_bytes')::numeric THEN
        v_over := 'payload_bytes';
        v_used := payload_size;
    ELSIF (quotas ->> 'stored_bytes')::numeric
        < (CASE WHEN quotas ->> 'stored_bytes' IS NOT NULL
            THEN gnomon.stored_bytes(tenant) END) + size THEN
        v_over := 'stored_bytes';
        v_used := gnomon.stored_bytes(tenant);
    ELSIF (quotas ->> 'submissions_per_second')::numeric
        < (CASE WHEN quotas ->> 'submissions_per_second' IS NOT NULL
            THEN gnomon.used_pace(tenant, gnomon.now()) END) + 1 THEN
        v_over := 'submissions_per_second';
        v_used := gnomon.used_pace(tenant, gnomon.now());
    ELSIF quotas ->> 'scheduled_tasks' IS NOT NULL
        AND gnomon.left_room(tenant, floor((quotas ->> 'scheduled_tasks')::numeric)::bigint) < 1 THEN
        v_over := 'scheduled_tasks';
        v_used := (quotas ->> 'scheduled_tasks')::numeric;
    END IF;
    IF v_over IS NOT NULL THEN
        RAISE EXCEPTION 'the quota % of the tenant is %, and % are used', v_over, quotas ->> v_over, v_used
            USING ERRCODE = 'GN103', HINT = CASE v_over
                WHEN 'submissions_per_second' THEN 'Try again after a second.'
                WHEN 'payload_bytes' THEN 'Send a reference instead.'
                ELSE 'Wait until tasks have ended, or ask for a higher quota.'
            END;
    END IF;
END
$$;

-- What the keyed limiters of a tenant find in a payload, written as the API writes it (gnomon.limits.limiter).
-- Values that it may write otherwise are refused: the same value must have the same limit.
CREATE FUNCTION gnomon.limit_keys_of(tenant text, type text, in_queue text, payload json) RETURNS text
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_found text := '';
    v_name text;
    v_pointer text;
    v_part text;
    v_value json;
    v_text text;
BEGIN
    FOR v_name, v_pointer IN
        SELECT m.name, m.key FROM gnomon.limiter AS m
        WHERE m.tenant_id = tenant AND m.key IS NOT NULL
          AND (m.task_type IS NULL OR m.task_type = type) AND (m.queue IS NULL OR m.queue = in_queue)
        ORDER BY m.name COLLATE "C"
    LOOP
        v_value := payload;
        FOREACH v_part IN ARRAY (string_to_array(v_pointer, '/'))[2:] LOOP
            v_part := replace(replace(v_part, '~1', '/'), '~0', '~');
            v_value := CASE
                WHEN json_typeof(v_value) = 'object' THEN v_value -> v_part
                WHEN json_typeof(v_value) = 'array' AND v_part ~ '^[0-9]{1,9}$'
                    THEN v_value -> v_part::integer
            END;
        END LOOP;
        CASE json_typeof(v_value)
            WHEN 'string' THEN v_text := left(v_value #>> '{}', 200);
            WHEN 'boolean' THEN v_text := v_value #>> '{}';
            WHEN 'number' THEN v_text := v_value #>> '{}';
            WHEN 'object', 'array' THEN v_text := NULL;
            ELSE v_text := '';  -- null, or nothing
        END CASE;
        IF v_text IS NULL OR (json_typeof(v_value) = 'number' AND v_text !~ '^(0|-?[1-9][0-9]{0,17})$') THEN
            PERFORM gnomon.refuse(
                '/payload' || v_pointer,
                format('is the key of the limiter %s, and must be text, a whole number, true or false '
                       'here; submit it over HTTP', v_name)
            );
        END IF;
        v_found := v_found || ',' || to_json(v_name) || ':' || to_json(v_text);
    END LOOP;
    RETURN '{' || nullif(substr(v_found, 2), '') || '}';
END
$$;
