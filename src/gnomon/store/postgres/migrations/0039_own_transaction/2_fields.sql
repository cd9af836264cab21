-- Readers of the fields of a task, for gnomon.submit. Each gives null where the field is left out or null,
-- and refuses a value that the API would refuse. SQLSTATE GN101: the field cannot be so; its JSON pointer
-- begins the message.
CREATE FUNCTION gnomon.refuse(pointer text, detail text, state text DEFAULT 'GN101') RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%: %', pointer, detail USING ERRCODE = state;
END
$$;

-- Text of some length on one line: no control characters.
CREATE FUNCTION gnomon.text_field(
    fields jsonb, field text, least_length integer, most_length integer, pointer text DEFAULT NULL
) RETURNS text
    LANGUAGE plpgsql AS $$
DECLARE
    v_value constant text := fields ->> field;
    v_place constant text := coalesce(pointer, '/' || field);
BEGIN
    IF v_value IS NULL THEN
        RETURN NULL;
    END IF;
    IF jsonb_typeof(fields -> field) <> 'string' THEN
        PERFORM gnomon.refuse(v_place, 'must be text, got ' || jsonb_typeof(fields -> field));
    END IF;
    IF length(v_value) NOT BETWEEN least_length AND most_length THEN
        PERFORM gnomon.refuse(
            v_place, format('must have %s to %s characters, got %s', least_length, most_length,
                            length(v_value))
        );
    END IF;
    IF v_value ~ '[\u0001-\u001f\u007f-\u009f\u2028\u2029]' THEN
        PERFORM gnomon.refuse(
            v_place, 'must not contain control characters, such as a line end'
        );
    END IF;
    RETURN v_value;
END
$$;

CREATE FUNCTION gnomon.number_field(
    fields jsonb, field text, least_value float8, most_value float8, pointer text DEFAULT NULL
) RETURNS float8
    LANGUAGE plpgsql AS $$
DECLARE
    v_place constant text := coalesce(pointer, '/' || field);
    v_value float8;
BEGIN
    IF fields ->> field IS NULL THEN
        RETURN NULL;
    END IF;
    IF jsonb_typeof(fields -> field) <> 'number' THEN
        PERFORM gnomon.refuse(v_place, 'must be a number, got ' || jsonb_typeof(fields -> field));
    END IF;
    v_value := (fields ->> field)::float8;
    IF v_value NOT BETWEEN least_value AND most_value THEN
        PERFORM gnomon.refuse(
            v_place, format('must be from %s to %s, got %s', least_value, most_value, v_value)
        );
    END IF;
    RETURN v_value;
END
$$;

CREATE FUNCTION gnomon.flag_field(fields jsonb, field text, pointer text DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    IF fields ->> field IS NULL THEN
        RETURN NULL;
    END IF;
    IF jsonb_typeof(fields -> field) <> 'boolean' THEN
        PERFORM gnomon.refuse(coalesce(pointer, '/' || field), 'must be true or false');
    END IF;
    RETURN (fields ->> field)::boolean;
END
$$;

-- The place of a word among those that are known, from 0 on: the number that a column keeps for it.
CREATE FUNCTION gnomon.choice_field(
    fields jsonb, field text, choices text[], pointer text DEFAULT NULL
) RETURNS integer
    LANGUAGE plpgsql AS $$
DECLARE
    v_place constant integer := array_position(choices, fields ->> field);
BEGIN
    IF fields ->> field IS NULL THEN
        RETURN NULL;
    END IF;
    IF jsonb_typeof(fields -> field) <> 'string' OR v_place IS NULL THEN
        PERFORM gnomon.refuse(
            coalesce(pointer, '/' || field),
            format('must be one of %s, got %s', array_to_string(choices, ', '), fields -> field)
        );
    END IF;
    RETURN v_place - 1;
END
$$;

-- A moment as in RFC 3339, with a zone.
CREATE FUNCTION gnomon.moment_field(fields jsonb, field text) RETURNS timestamptz
    LANGUAGE plpgsql AS $$
DECLARE
    v_text constant text := gnomon.text_field(fields, field, 1, 100);
    v_moment timestamptz;
BEGIN
    IF v_text IS NULL THEN
        RETURN NULL;
    END IF;
    IF v_text !~ '^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)$' THEN
        PERFORM gnomon.refuse(
            '/' || field, 'must be a time with a zone, such as 2026-01-01T09:00:00Z'
        );
    END IF;
    v_moment := v_text::timestamptz;
    IF extract(year FROM v_moment AT TIME ZONE 'UTC') NOT BETWEEN 1971 AND 2199 THEN
        PERFORM gnomon.refuse('/' || field, 'must be in the years 1971 to 2199 of UTC');
    END IF;
    RETURN v_moment;
END
$$;

-- Refuse names that are none of these, and null where it means nothing.
CREATE FUNCTION gnomon.check_fields(
    fields jsonb, known text[], nullable text[], pointer text
) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    v_name text;
BEGIN
    IF jsonb_typeof(fields) <> 'object' THEN
        PERFORM gnomon.refuse(pointer, 'must be an object, got ' || jsonb_typeof(fields));
    END IF;
    SELECT e.key INTO v_name FROM jsonb_each(fields) AS e WHERE e.key <> ALL (known) LIMIT 1;
    IF FOUND THEN
        PERFORM gnomon.refuse(
            pointer || '/' || left(v_name, 100),
            'unknown field; known are ' || array_to_string(known, ', ')
        );
    END IF;
    SELECT e.key INTO v_name FROM jsonb_each(fields) AS e
    WHERE e.value = 'null' AND e.key <> ALL (nullable) LIMIT 1;
    IF FOUND THEN
        PERFORM gnomon.refuse(pointer || '/' || v_name, 'must not be null; leave it out');
    END IF;
END
$$;

-- The tags of a task, each once; null where there are none.
CREATE FUNCTION gnomon.tags_field(fields jsonb) RETURNS jsonb
    LANGUAGE plpgsql AS $$
DECLARE
    v_tags constant jsonb := coalesce(fields -> 'tags', '[]');
BEGIN
    IF jsonb_typeof(v_tags) <> 'array' OR jsonb_array_length(v_tags) > 32 THEN
        PERFORM gnomon.refuse('/tags', 'must be a list of at most 32');
    END IF;
    PERFORM gnomon.text_field(
        jsonb_build_object('tag', e.value), 'tag', 1, 100, format('/tags/%s', e.n - 1)
    )
    FROM jsonb_array_elements(v_tags) WITH ORDINALITY AS e (value, n);
    RETURN (
        SELECT jsonb_agg(d.value ORDER BY d.n)
        FROM (
            SELECT e.value, min(e.n) AS n
            FROM jsonb_array_elements(v_tags) WITH ORDINALITY AS e (value, n) GROUP BY e.value
        ) AS d
    );
END
$$;

-- A retry policy as it is stored: what differs from the default one.
CREATE FUNCTION gnomon.policy_field(fields jsonb) RETURNS jsonb
    LANGUAGE plpgsql AS $$
DECLARE
    v_policy constant jsonb := fields -> 'retry_policy';
    v_at constant text := '/retry_policy/';
BEGIN
    IF v_policy IS NULL THEN
        RETURN '{}';
    END IF;
    PERFORM gnomon.check_fields(
        v_policy, ARRAY['max_retries', 'backoff', 'base_seconds', 'max_seconds', 'jitter',
                        'retry_client_errors'], '{}', '/retry_policy'
    );
    PERFORM gnomon.number_field(v_policy, 'max_retries', 0, 1000, v_at || 'max_retries'),
        gnomon.choice_field(
            v_policy, 'backoff', ARRAY['exponential', 'linear', 'fixed'], v_at || 'backoff'
        ),
        gnomon.number_field(v_policy, 'base_seconds', 0, 2592000, v_at || 'base_seconds'),
        gnomon.number_field(v_policy, 'max_seconds', 0, 2592000, v_at || 'max_seconds'),
        gnomon.flag_field(v_policy, 'jitter', v_at || 'jitter'),
        gnomon.flag_field(v_policy, 'retry_client_errors', v_at || 'retry_client_errors');
    IF v_policy ->> 'max_retries' !~ '^\d+$' THEN
        PERFORM gnomon.refuse(v_at || 'max_retries', 'must be a whole number');
    END IF;
    RETURN (
        SELECT coalesce(jsonb_object_agg(e.key, e.value), '{}')
        FROM jsonb_each(v_policy) AS e
        WHERE e.value IS DISTINCT FROM '{"max_retries": 3, "backoff": "exponential",
            "base_seconds": 1, "max_seconds": 60, "jitter": true, "retry_client_errors": false}'::jsonb
            -> e.key
    );
END
$$;
