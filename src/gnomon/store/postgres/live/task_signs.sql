-- What changes with a task: its row, the row that it has at its end, how far it says it is.
-- $1 and $2 tenants and ids.
SELECT
    w.tenant_id, w.id,
    (SELECT t.xmin::text FROM gnomon.task AS t
     WHERE t.tenant_id = w.tenant_id AND t.id = w.id LIMIT 1) AS live,
    (SELECT a.state FROM gnomon.task_archive AS a
     WHERE a.tenant_id = w.tenant_id AND a.id = w.id LIMIT 1) AS ended,
    (SELECT p.at FROM gnomon.progress AS p
     WHERE p.tenant_id = w.tenant_id AND p.task_id = w.id LIMIT 1) AS progress
FROM unnest($1::text[], $2::uuid[]) AS w (tenant_id, id)
