-- The newest task of a tenant, live or finished: a bulk operation touches nothing that is newer.
SELECT greatest(
    (SELECT id FROM gnomon.task WHERE tenant_id = $1 ORDER BY id DESC LIMIT 1),
    (SELECT id FROM gnomon.task_archive WHERE tenant_id = $1 ORDER BY id DESC LIMIT 1)
) AS id
