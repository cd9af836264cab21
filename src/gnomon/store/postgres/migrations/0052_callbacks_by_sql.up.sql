-- What only the API takes is refused as such, and not as unknown.
CREATE OR REPLACE FUNCTION gnomon.check_fields(
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
            CASE WHEN pointer = '' AND v_name IN ('on_success', 'on_failure', 'batch_id')
                THEN 'is not for gnomon.submit: callbacks and members of batches are submitted by the API'
                ELSE 'unknown field; known are ' || array_to_string(known, ', ')
            END
        );
    END IF;
    SELECT e.key INTO v_name FROM jsonb_each(fields) AS e
    WHERE e.value = 'null' AND e.key <> ALL (nullable) LIMIT 1;
    IF FOUND THEN
        PERFORM gnomon.refuse(pointer || '/' || v_name, 'must not be null; leave it out');
    END IF;
END
$$;
