-- The days before id $1 that live tasks were made on, as a number of days since 1970: from one tenant
-- and day to the next, however many tasks there are.
WITH RECURSIVE live AS (
    (SELECT tenant_id, id FROM gnomon.task ORDER BY tenant_id, id LIMIT 1)
    UNION ALL
    SELECT next.tenant_id, next.id
    FROM live
    CROSS JOIN LATERAL (
        SELECT t.tenant_id, t.id
        FROM gnomon.task AS t
        WHERE (t.tenant_id, t.id) >= (live.tenant_id, CASE
            -- Milliseconds are the first 48 bits of an id.
            WHEN live.id < $1 THEN (
                lpad(to_hex((('x' || left(replace(live.id::text, '-', ''), 12))::bit(48)::bigint
                    / 86400000 + 1) * 86400000), 12, '0') || repeat('0', 20)
            )::uuid
            ELSE 'ffffffff-ffff-ffff-ffff-ffffffffffff'
        END)
        ORDER BY t.tenant_id, t.id
        LIMIT 1
    ) AS next
)
SELECT DISTINCT
    (('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 86400000)::integer AS day
FROM live
WHERE id < $1
