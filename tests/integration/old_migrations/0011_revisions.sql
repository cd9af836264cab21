-- Which tenants have changed, and when: so that a process reads again what is theirs, and not
-- everything of everybody. No tenant's column (it is named otherwise): tenants never look at it.
CREATE TABLE gnomon.revised (
    tenant text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL  -- that gnomon.revision had then
);
CREATE INDEX revised_number ON gnomon.revised (number);

-- The one row of gnomon.revision is locked until the end of the transaction: numbers become visible
-- in their order. The argument names the column that says whose a row is.
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

DROP TRIGGER revise ON gnomon.tenant;
DROP TRIGGER revise ON gnomon.task_type;
DROP TRIGGER revise ON gnomon.limiter;
CREATE TRIGGER revise_inserted AFTER INSERT ON gnomon.tenant REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('id');
CREATE TRIGGER revise_updated AFTER UPDATE ON gnomon.tenant REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('id');
CREATE TRIGGER revise_deleted AFTER DELETE ON gnomon.tenant REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('id');
CREATE TRIGGER revise_inserted AFTER INSERT ON gnomon.task_type REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('tenant_id');
CREATE TRIGGER revise_updated AFTER UPDATE ON gnomon.task_type REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('tenant_id');
CREATE TRIGGER revise_deleted AFTER DELETE ON gnomon.task_type REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('tenant_id');
CREATE TRIGGER revise_inserted AFTER INSERT ON gnomon.limiter REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('tenant_id');
CREATE TRIGGER revise_updated AFTER UPDATE ON gnomon.limiter REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('tenant_id');
CREATE TRIGGER revise_deleted AFTER DELETE ON gnomon.limiter REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('tenant_id');
