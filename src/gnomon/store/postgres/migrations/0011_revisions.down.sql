DROP TRIGGER revise_inserted ON gnomon.tenant;
DROP TRIGGER revise_updated ON gnomon.tenant;
DROP TRIGGER revise_deleted ON gnomon.tenant;
DROP TRIGGER revise_inserted ON gnomon.task_type;
DROP TRIGGER revise_updated ON gnomon.task_type;
DROP TRIGGER revise_deleted ON gnomon.task_type;
DROP TRIGGER revise_inserted ON gnomon.limiter;
DROP TRIGGER revise_updated ON gnomon.limiter;
DROP TRIGGER revise_deleted ON gnomon.limiter;
DROP TABLE gnomon.revised;

CREATE OR REPLACE FUNCTION gnomon.revise() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
    AS $$
BEGIN
    UPDATE gnomon.revision SET number = number + 1;
    RETURN NULL;
END
$$;
CREATE TRIGGER revise AFTER INSERT OR UPDATE OR DELETE ON gnomon.tenant
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise();
CREATE TRIGGER revise AFTER INSERT OR UPDATE OR DELETE ON gnomon.task_type
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise();
CREATE TRIGGER revise AFTER INSERT OR UPDATE OR DELETE ON gnomon.limiter
    FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise();
