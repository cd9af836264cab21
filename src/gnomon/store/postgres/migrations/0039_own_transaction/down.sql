DROP FUNCTION IF EXISTS gnomon.complete(text, uuid, bigint, uuid, json);
DROP FUNCTION IF EXISTS gnomon.hint(uuid[]);
DROP FUNCTION IF EXISTS gnomon.submit(json, text, text);
DROP FUNCTION IF EXISTS gnomon.leave_begin(timestamptz);
DROP FUNCTION IF EXISTS gnomon.began_key(timestamptz);
DROP FUNCTION IF EXISTS gnomon.task_size(gnomon.task, json);
DROP FUNCTION IF EXISTS gnomon.store_task(gnomon.task, json, bigint);
DROP FUNCTION IF EXISTS gnomon.submitted_before(text, text, bytea);
DROP FUNCTION IF EXISTS gnomon.submission_fingerprint(jsonb, json);
DROP FUNCTION IF EXISTS gnomon.origin_field(jsonb, text);
DROP FUNCTION IF EXISTS gnomon.new_task(jsonb, jsonb, timestamptz);
DROP FUNCTION IF EXISTS gnomon.payload_schema(text);
DROP FUNCTION IF EXISTS gnomon.schema_digest(json);
DROP FUNCTION IF EXISTS gnomon.new_task_id(timestamptz);
DROP FUNCTION IF EXISTS gnomon.limit_keys_of(text, text, text, json);
DROP FUNCTION IF EXISTS gnomon.check_quotas(text, jsonb, integer, bigint);
DROP FUNCTION IF EXISTS gnomon.left_room(text, bigint);
DROP FUNCTION IF EXISTS gnomon.quotas_of(text, json, json);
DROP FUNCTION IF EXISTS gnomon.is_allowed(jsonb, text[], text[]);
DROP FUNCTION IF EXISTS gnomon.check_headers(jsonb);
DROP FUNCTION IF EXISTS gnomon.is_address(text);
DROP FUNCTION IF EXISTS gnomon.check_url(jsonb, text, text[]);
DROP FUNCTION IF EXISTS gnomon.check_metadata(jsonb);
DROP FUNCTION IF EXISTS gnomon.check_descriptor_set(jsonb);
DROP FUNCTION IF EXISTS gnomon.target_field(jsonb);
DROP FUNCTION IF EXISTS gnomon.policy_field(jsonb);
DROP FUNCTION IF EXISTS gnomon.tags_field(jsonb);
DROP FUNCTION IF EXISTS gnomon.check_fields(jsonb, text[], text[], text);
DROP FUNCTION IF EXISTS gnomon.moment_field(jsonb, text);
DROP FUNCTION IF EXISTS gnomon.choice_field(jsonb, text, text[], text);
DROP FUNCTION IF EXISTS gnomon.flag_field(jsonb, text, text);
DROP FUNCTION IF EXISTS gnomon.number_field(jsonb, text, float8, float8, text);
DROP FUNCTION IF EXISTS gnomon.text_field(jsonb, text, integer, integer, text);
DROP FUNCTION IF EXISTS gnomon.refuse(text, text, text);
CREATE OR REPLACE FUNCTION gnomon.hold_pace(
    tenant text, rate integer, moment OUT timestamptz, pace OUT integer
)
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
DROP FUNCTION IF EXISTS gnomon.used_pace(text, timestamptz);
DROP FUNCTION IF EXISTS gnomon.revoke_role(name);
DROP FUNCTION IF EXISTS gnomon.grant_role(name, text, text[], text[], text[]);
DROP TABLE IF EXISTS gnomon.uncounted_submission;
DROP TABLE IF EXISTS gnomon.submission_rules;
DROP TABLE IF EXISTS gnomon.role_grant;
CREATE OR REPLACE FUNCTION gnomon.revise() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
    AS $$
DECLARE
    present bigint;
BEGIN
    UPDATE gnomon.revision SET number = number + 1 RETURNING number INTO present;
    EXECUTE format(
        'INSERT INTO gnomon.revised (tenant, number)
         SELECT DISTINCT %I, $1 FROM changed
         ON CONFLICT (tenant) DO UPDATE SET number = excluded.number', TG_ARGV[0]
    ) USING present;
    RETURN NULL;
END
$$;
