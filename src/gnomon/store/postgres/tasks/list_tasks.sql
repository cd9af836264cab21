-- A page of tasks, newest first, live and finished in one snapshot.
-- At most 10 000 tasks are examined, however rare the filter: the keys of both tables are merged in
-- order and read only until the page is full. A last row without a task says where the examining
-- stopped (stopped_at), where it stopped before the end.
-- $1 tenant, $2 older than this id, $3 tasks a page and one more, $4 states, $5 is due, $6 was tried,
-- $7 type, $8 lane, $9 tag, $10 cron job, $11 due from, $12 due before, $13 queue, $14 batch. Null filters nothing.
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
                NULL::json AS result, NULL::text AS resolution, cancel_requested
            FROM gnomon.task
            WHERE tenant_id = $1 AND id < $2
            ORDER BY id DESC
            LIMIT 10000)
            UNION ALL
            (SELECT
                {carried}, state, execute_at, started_at, finished_at, attempt,
                payload_size, payload, payload_removed, last_error,
                result, resolution, false
            FROM gnomon.task_archive
            WHERE tenant_id = $1 AND id < $2
            ORDER BY id DESC
            LIMIT 10000)
        ) AS u
        ORDER BY u.id DESC
        LIMIT 10000
    ) AS e
    WHERE {list_matching}
    ORDER BY e.id DESC
    LIMIT $3
), stop AS (
    SELECT i.id
    FROM (
        (SELECT id FROM gnomon.task WHERE tenant_id = $1 AND id < $2
         ORDER BY id DESC LIMIT 10000)
        UNION ALL
        (SELECT id FROM gnomon.task_archive WHERE tenant_id = $1 AND id < $2
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
