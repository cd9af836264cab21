WITH batch AS MATERIALIZED (
    SELECT t.tenant_id, t.id
    FROM gnomon.task AS t
    WHERE (t.tenant_id, t.id) > (
        coalesce($1::jsonb ->> 'tenant_id', ''),
        coalesce(($1::jsonb ->> 'id')::uuid, '00000000-0000-0000-0000-000000000000')
    )
    ORDER BY t.tenant_id, t.id
    LIMIT 2000
    FOR NO KEY UPDATE
), filled AS (
    UPDATE gnomon.task AS t SET label = coalesce(t.label || '+', '') || t.task_type
    FROM batch AS b
    WHERE t.tenant_id = b.tenant_id AND t.id = b.id
    RETURNING 1
)
SELECT
    (
        SELECT jsonb_build_object('tenant_id', b.tenant_id, 'id', b.id)
        FROM batch AS b ORDER BY b.tenant_id DESC, b.id DESC LIMIT 1
    ) AS position,
    (SELECT count(*) FROM filled) AS rows;
