-- Complete an execution in the transaction of its handler, whose role has no rights over any table here. A role
-- completes the tasks of its own tenant, and of those only what it was given the fence and the node of.
CREATE FUNCTION gnomon.complete(
    tenant_id text, task_id uuid, fence bigint, node uuid, result json DEFAULT NULL
) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM gnomon.role_grant AS g
        WHERE g.role = session_user AND g.tenant_id = complete.tenant_id
    ) THEN
        RAISE EXCEPTION 'the role % may not complete tasks of the tenant %', quote_ident(session_user),
            complete.tenant_id
            USING ERRCODE = 'GN102', HINT = format(
                'Let an operator run: gnomon tenants grant-role %s %s', complete.tenant_id, session_user
            );
    END IF;
    PERFORM gnomon.complete_run(
        complete.tenant_id, complete.task_id, complete.fence, complete.node, complete.result
    );
END
$$;
REVOKE EXECUTE ON FUNCTION gnomon.complete(text, uuid, bigint, uuid, json) FROM PUBLIC;
