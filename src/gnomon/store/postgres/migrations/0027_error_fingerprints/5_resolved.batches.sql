-- Dead letters that were resolved before: when, by the end of their task. Nobody noted who it was.
WITH place AS MATERIALIZED (
    SELECT coalesce($1::jsonb ->> 'tenant', '') COLLATE "C" AS tenant_id,
        coalesce(($1::jsonb ->> 'id')::uuid, '00000000-0000-0000-0000-000000000000') AS id
), examined AS MATERIALIZED (
    SELECT tenant_id, id, state, finished_at
    FROM gnomon.task_archive
    WHERE (tenant_id, id) > ((SELECT p.tenant_id FROM place AS p), (SELECT p.id FROM place AS p))
    ORDER BY tenant_id, id
    LIMIT 10000
), filled AS (
    INSERT INTO gnomon.resolution (tenant_id, task_id, resolved_at)
    SELECT tenant_id, id, finished_at FROM examined WHERE state = 13
    ON CONFLICT DO NOTHING
    RETURNING task_id
), last AS (
    SELECT tenant_id, id FROM examined ORDER BY tenant_id DESC, id DESC LIMIT 1
)
SELECT
    CASE WHEN (SELECT count(*) FROM examined) = 10000 THEN (
        SELECT jsonb_build_object('tenant', tenant_id, 'id', id) FROM last
    ) END AS position,
    (SELECT count(*) FROM filled) AS rows;
