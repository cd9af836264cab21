-- A page of unresolved dead letters, newest first, by their own indexes. As list_tasks: at most 10 000
-- are examined, and a last row without a task says where the examining stopped.
-- $1 tenant, $2 older than this id, $3 tasks a page and one more, $4 type, $5 lane, $6 tag,
-- $7 cron job, $8 due from, $9 due before, $10 queue, $11 batch,
-- $12 fingerprint. Null filters nothing.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
), page AS MATERIALIZED (
    SELECT e.*
    FROM (
        SELECT u.*
        FROM (
            (SELECT
                {carried}, state, due_at, started_at, NULL::timestamptz AS finished_at, attempt,
                payload_size, payload AS inline_payload, false AS payload_removed, last_error,
                NULL::json AS result, NULL::text AS resolution, cancel_requested, fingerprint
            FROM gnomon.task
            WHERE state = 4 AND tenant_id = $1 AND id < $2 AND $12::bigint IS NULL
            ORDER BY id DESC
            LIMIT 10000)
            UNION ALL
            (SELECT
                {carried}, state, due_at, started_at, NULL, attempt,
                payload_size, payload, false, last_error, NULL, NULL, cancel_requested, fingerprint
            FROM gnomon.task
            WHERE state = 4 AND tenant_id = $1 AND id < $2 AND fingerprint = $12
            ORDER BY id DESC
            LIMIT 10000)
        ) AS u
        ORDER BY u.id DESC
        LIMIT 10000
    ) AS e
    WHERE ($4::text IS NULL OR e.task_type = $4)
      AND ($5::smallint IS NULL OR e.lane = $5)
      AND ($6::text IS NULL OR e.tags ? $6)
      AND ($7::uuid IS NULL OR e.cron_job_id = $7)
      AND ($8::timestamptz IS NULL OR e.due_at >= $8)
      AND ($9::timestamptz IS NULL OR e.due_at < $9)
      AND ($10::text IS NULL OR e.queue = $10)
      AND ($11::uuid IS NULL OR e.batch_id = $11)
    ORDER BY e.id DESC
    LIMIT $3
), stop AS (
    SELECT i.id
    FROM (
        (SELECT id FROM gnomon.task
         WHERE state = 4 AND tenant_id = $1 AND id < $2 AND $12 IS NULL
         ORDER BY id DESC LIMIT 10000)
        UNION ALL
        (SELECT id FROM gnomon.task
         WHERE state = 4 AND tenant_id = $1 AND id < $2 AND fingerprint = $12
         ORDER BY id DESC LIMIT 10000)
    ) AS i
    WHERE (SELECT count(*) FROM page) < $3
    ORDER BY i.id DESC
    OFFSET 9999 LIMIT 1
)
SELECT p.*, coalesce(p.inline_payload, y.payload) AS payload, m.now, NULL::uuid AS stopped_at
FROM page AS p
CROSS JOIN moment AS m
LEFT JOIN LATERAL (
    -- The LIMIT keeps it at one probe for each payload that is kept apart.
    SELECT payload
    FROM gnomon.task_payload
    WHERE p.payload_size IS NOT NULL AND tenant_id = p.tenant_id AND task_id = p.id
    LIMIT 1
) AS y ON true
UNION ALL
SELECT p.*, NULL, NULL, s.id FROM stop AS s LEFT JOIN page AS p ON false
ORDER BY id DESC NULLS LAST
