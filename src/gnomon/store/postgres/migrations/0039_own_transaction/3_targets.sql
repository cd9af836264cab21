-- The target of a task as it is stored. What the API would refuse is refused, and so is what can only be
-- read by a library: names of hosts that are not ASCII. Whether an address may be called is decided by
-- the node, right before the call, as it is for every task.
CREATE FUNCTION gnomon.target_field(fields jsonb) RETURNS jsonb
    LANGUAGE plpgsql AS $$
DECLARE
    v_target jsonb := fields -> 'target';
    v_at text := '/target';
BEGIN
    IF v_target = 'null' THEN
        v_target := NULL;
    END IF;
    IF fields ->> 'callback_url' IS NOT NULL OR fields ->> 'callback_method' IS NOT NULL THEN
        IF v_target IS NOT NULL THEN
            PERFORM gnomon.refuse('/target', 'give target or callback_url, not both');
        ELSIF fields ->> 'callback_url' IS NULL THEN
            PERFORM gnomon.refuse('/callback_method', 'callback_method needs a callback_url');
        END IF;
        v_at := '/callback';
        v_target := jsonb_strip_nulls(jsonb_build_object(
            'type', 'http', 'url', fields -> 'callback_url', 'method', fields -> 'callback_method'
        ));
    ELSIF v_target IS NULL THEN
        v_at := '';
        v_target := jsonb_build_object('type', 'python', 'function', fields -> 'task_type');
    ELSIF jsonb_typeof(v_target) <> 'object' THEN
        PERFORM gnomon.refuse('/target', 'must be an object');
    END IF;
    CASE v_target ->> 'type'
        WHEN 'python' THEN
            PERFORM gnomon.check_fields(v_target, ARRAY['type', 'function'], '{}', '/target'),
                gnomon.text_field(v_target, 'function', 1, 200, '/target/function');
            IF NOT v_target ? 'function' THEN
                PERFORM gnomon.refuse('/target', 'needs the field function');
            END IF;
            RETURN v_target;
        WHEN 'http' THEN
            PERFORM gnomon.check_fields(
                v_target, ARRAY['type', 'url', 'method', 'headers'], '{}', '/target'
            );
            PERFORM gnomon.choice_field(
                v_target, 'method', ARRAY['POST', 'PUT', 'PATCH', 'GET', 'DELETE'],
                CASE v_at WHEN '/callback' THEN '/callback_method' ELSE '/target/method' END
            );
            PERFORM gnomon.check_url(
                v_target -> 'url',
                CASE v_at WHEN '/callback' THEN '/callback_url' ELSE '/target/url' END
            );
            PERFORM gnomon.check_headers(coalesce(v_target -> 'headers', '{}'));
            RETURN '{"method": "POST", "headers": {}}' || v_target;
        WHEN 'grpc' THEN
            PERFORM gnomon.check_fields(
                v_target, ARRAY['type', 'url', 'headers', 'descriptor_set'], '{}', '/target'
            );
            PERFORM gnomon.check_url(v_target -> 'url', '/target/url', ARRAY['grpc', 'grpcs']);
            IF v_target ->> 'url' !~ '^[a-zA-Z]+://[^/?#]+/[A-Za-z_]\w*(\.[A-Za-z_]\w*)*/[A-Za-z_]\w*$' THEN
                PERFORM gnomon.refuse(
                    '/target/url', 'must end in a method, as in grpc://host:50051/package.Service/Method'
                );
            END IF;
            PERFORM gnomon.check_headers(coalesce(v_target -> 'headers', '{}'));
            PERFORM gnomon.check_metadata(coalesce(v_target -> 'headers', '{}')),
                gnomon.check_descriptor_set(v_target -> 'descriptor_set');
            RETURN '{"headers": {}, "descriptor_set": null}' || v_target;
        WHEN 'queue' THEN
            PERFORM gnomon.check_fields(
                v_target, ARRAY['type', 'url', 'key', 'headers'], '{}', '/target'
            );
            PERFORM gnomon.text_field(v_target, 'url', 1, 4096, '/target/url'),
                gnomon.text_field(v_target, 'key', 1, 200, '/target/key');
            IF coalesce(v_target ->> 'url', '') !~ '^queue://[a-z0-9_-]{1,63}/[A-Za-z0-9._:/~-]{1,249}$' THEN
                PERFORM gnomon.refuse(
                    '/target/url',
                    'must be queue://connection/topic: a connection of the settings, in small letters, '
                    'and a topic of letters, digits and . _ : / ~ -, up to 249'
                );
            END IF;
            PERFORM gnomon.check_headers(coalesce(v_target -> 'headers', '{}'));
            RETURN '{"key": null, "headers": {}}' || v_target;
        ELSE
            PERFORM gnomon.refuse('/target/type', 'must be http, grpc, queue or python');
    END CASE;
    RETURN NULL;
END
$$;

-- Beside what holds for every header: names and values that metadata of gRPC can have.
CREATE FUNCTION gnomon.check_metadata(headers jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    v_name text;
    v_value text;
BEGIN
    FOR v_name, v_value IN SELECT lower(e.key), e.value FROM jsonb_each_text(headers) AS e LOOP
        IF v_name !~ '^[0-9a-z_.-]+$' OR v_name ~ '^grpc-|-bin$'
            OR v_name IN ('content-type', 'user-agent') OR v_value !~ '^[ -~]*$' THEN
            PERFORM gnomon.refuse(
                '/target/headers/' || left(v_name, 200),
                'cannot be metadata of gRPC: names are letters, digits, _, - and ., values printable '
                'ASCII, and those of gRPC itself cannot be chosen'
            );
        END IF;
    END LOOP;
END
$$;

CREATE FUNCTION gnomon.check_descriptor_set(descriptor_set jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF descriptor_set IS NULL OR descriptor_set = 'null' THEN
        RETURN;
    END IF;
    IF jsonb_typeof(descriptor_set) <> 'string' OR length(descriptor_set #>> '{}') > 87385
        OR descriptor_set #>> '{}' !~ '^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$' THEN
        PERFORM gnomon.refuse(
            '/target/descriptor_set',
            'must be a FileDescriptorSet of protoc in base64, of at most 65536 bytes'
        );
    END IF;
END
$$;

CREATE FUNCTION gnomon.check_url(
    url jsonb, pointer text, schemes text[] DEFAULT '{http,https}'
) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    v_url constant text := gnomon.text_field(jsonb_build_object('url', url), 'url', 1, 4096, pointer);
    v_host text;
BEGIN
    IF v_url IS NULL THEN
        PERFORM gnomon.refuse(pointer, 'must be given');
    END IF;
    IF position('://' IN v_url) = 0 OR lower(split_part(v_url, '://', 1)) <> ALL (schemes) THEN
        PERFORM gnomon.refuse(pointer, format('must start with %s:// or %s://', VARIADIC schemes));
    ELSIF v_url !~ '^[!-~]+$' THEN
        PERFORM gnomon.refuse(
            pointer, 'must be ASCII without spaces here; encode it (a host by Punycode)'
        );
    ELSIF split_part(v_url, '/', 3) ~ '@' OR v_url ~ '\\' THEN
        PERFORM gnomon.refuse(pointer, 'must not carry credentials; send them in headers');
    END IF;
    v_host := substring(v_url FROM '^[A-Za-z]+://([^/?#]*)');
    IF v_host ~ '^\[' THEN
        IF v_host !~ '^\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?$'
            OR NOT gnomon.is_address(substring(v_host FROM '^\[(.*)\]')) THEN
            PERFORM gnomon.refuse(pointer, 'must name an address of IPv6 in brackets');
        END IF;
    ELSIF v_host !~ '^[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?(:[0-9]{1,5})?$'
        OR length(split_part(v_host, ':', 1)) > 254 THEN
        PERFORM gnomon.refuse(
            pointer, 'must name a host of letters, digits, -, _ and dots, or an address'
        );
    END IF;
    IF substring(v_host FROM ':([0-9]+)$')::integer NOT BETWEEN 1 AND 65535 THEN
        PERFORM gnomon.refuse(pointer, 'must name a port from 1 to 65535');
    END IF;
    IF v_url ~* '[?&;][^&;=#]*(auth|credential|passw|pwd|secret|signature|token)[^&;=#]*=\*\*\*([&;#]|$)'
        OR v_url ~* '[?&;][^&;=#]*(code|jwt|key|sig)=\*\*\*([&;#]|$)' THEN
        PERFORM gnomon.refuse(pointer, 'has ***, which stands for a secret; give the value itself');
    END IF;
END
$$;

CREATE FUNCTION gnomon.is_address(word text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN word !~ '/' AND word::inet IS NOT NULL;
EXCEPTION
    WHEN invalid_text_representation THEN RETURN false;
END
$$;

CREATE FUNCTION gnomon.check_headers(headers jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    v_name text;
    v_value jsonb;
    v_at text;
BEGIN
    IF jsonb_typeof(headers) <> 'object' THEN
        PERFORM gnomon.refuse('/target/headers', 'must be an object');
    END IF;
    IF (SELECT count(*) FROM jsonb_object_keys(headers)) > 64 THEN
        PERFORM gnomon.refuse('/target/headers', 'at most 64 may be given');
    END IF;
    FOR v_name, v_value IN SELECT e.key, e.value FROM jsonb_each(headers) AS e LOOP
        v_at := '/target/headers/' || left(v_name, 200);
        IF v_name !~ '^[!#$%&''*+.^_`|~0-9A-Za-z-]{1,200}$' THEN
            PERFORM gnomon.refuse(v_at, 'is not a valid HTTP token of at most 200 characters');
        ELSIF lower(v_name) ~ '^(webhook-|gnomon-)' OR lower(v_name) = ANY (ARRAY[
            'connection', 'content-length', 'host', 'idempotency-key', 'keep-alive', 'te', 'trailer',
            'transfer-encoding', 'upgrade'
        ]) THEN
            PERFORM gnomon.refuse(v_at, 'is set by Gnomon and cannot be chosen');
        ELSIF jsonb_typeof(v_value) <> 'string' THEN
            PERFORM gnomon.refuse(v_at, 'must be text');
        ELSIF length(v_value #>> '{}') > 8192 OR v_value #>> '{}' ~ '[\u0001-\u0008\u000a-\u001f\u007f]' THEN
            PERFORM gnomon.refuse(
                v_at, 'must have at most 8192 characters, and no control characters'
            );
        ELSIF v_value = '"***"' AND lower(v_name) <> ALL (ARRAY[
            'accept', 'accept-charset', 'accept-encoding', 'accept-language', 'cache-control',
            'content-encoding', 'content-language', 'content-type', 'date', 'expect', 'if-match',
            'if-none-match', 'pragma', 'prefer', 'referer', 'traceparent', 'tracestate', 'user-agent',
            'x-correlation-id', 'x-request-id'
        ]) THEN
            PERFORM gnomon.refuse(v_at, 'has ***, which stands for a secret; give the value itself');
        END IF;
    END LOOP;
END
$$;

-- Whether an allow-list lets the target be called. A list of patterns as the API stores it; one that
-- is written otherwise allows nothing.
CREATE FUNCTION gnomon.is_allowed(target jsonb, functions text[], hosts text[]) RETURNS boolean
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_called constant text := lower(substring(target ->> 'url' FROM '^[A-Za-z]+://([^/?#]*)'));
    v_name text := rtrim(substring(v_called FROM '^(\[.*\]|[^:]*)'), '.');
    v_port constant text := coalesce(
        substring(v_called FROM ':0*([0-9]+)$'),
        CASE WHEN target ->> 'url' ~* '^(https|grpcs):' THEN '443' ELSE '80' END
    );
    v_pattern text;
    v_host text;
BEGIN
    IF target ->> 'type' = 'python' THEN
        RETURN functions IS NULL OR EXISTS (
            SELECT FROM unnest(functions) AS f (pattern)
            WHERE target ->> 'function' = f.pattern
               OR (right(f.pattern, 1) = '*' AND length(f.pattern) > 1
                   AND starts_with(target ->> 'function', left(f.pattern, -1)))
        );
    END IF;
    IF hosts IS NULL THEN
        RETURN true;
    END IF;
    IF target ->> 'type' = 'queue' THEN
        RETURN EXISTS (
            SELECT FROM unnest(hosts) AS h (pattern)
            WHERE h.pattern ~ '^queue://[a-z0-9_-]{1,63}/[A-Za-z0-9._:/~-]{0,249}\*?$'
              AND (target ->> 'url' = h.pattern
                   OR (right(h.pattern, 1) = '*'
                       AND starts_with(target ->> 'url', left(h.pattern, -1))))
        );
    END IF;
    FOREACH v_pattern IN ARRAY hosts LOOP
        CONTINUE WHEN v_pattern IS NULL
            OR v_pattern !~ '^((\*\.)?[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*|\[[0-9a-f:.]+\])(:[0-9]{1,5})?$';
        v_host := substring(v_pattern FROM '^(\[.*\]|[^:]*)');
        CONTINUE WHEN substring(v_pattern FROM ':([0-9]+)$') <> v_port;
        IF left(v_host, 2) = '*.' THEN
            IF right(v_name, length(v_host) - 1) = substr(v_host, 2)
                AND length(v_name) >= length(v_host) THEN
                RETURN true;
            END IF;
        ELSIF left(v_host, 1) = '[' AND left(v_name, 1) = '[' THEN
            IF gnomon.is_address(btrim(v_host, '[]'))
                AND btrim(v_host, '[]')::inet = btrim(v_name, '[]')::inet THEN
                RETURN true;
            END IF;
        ELSIF v_host = v_name THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END
$$;
