-- A page of resolved dead letters, the last resolved first: at most 10 000 are examined, and a last row
-- without a task says where the examining stopped. $1 tenant, $2 and $3 resolved before this, as the
-- last of the page before, $4 tasks a page and one more, $5 type, $6 lane, $7 tag, $8 cron job, $9 due
-- from, $10 due before, $11 queue, $12 batch, $13 fingerprint. Null filters nothing.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
), page AS MATERIALIZED (
    SELECT
        {a.carried}, a.state, a.execute_at AS due_at, a.started_at, a.finished_at, a.attempt,
        a.payload_size, a.payload AS inline_payload, a.payload_removed, a.last_error, a.result,
        a.resolution, false AS cancel_requested, x.fingerprint, x.resolved_at, x.resolved_by, x.note
    FROM (
        SELECT task_id, resolved_at, resolved_by, note, fingerprint
        FROM gnomon.resolution
        WHERE tenant_id = $1 AND (resolved_at, task_id) < ($2::timestamptz, $3::uuid)
        ORDER BY resolved_at DESC, task_id DESC
        LIMIT 10000
    ) AS x
    CROSS JOIN LATERAL (
        SELECT *
        FROM gnomon.task_archive
        WHERE tenant_id = $1 AND id = x.task_id
        LIMIT 1
    ) AS a
    WHERE ($5::text IS NULL OR a.task_type = $5)
      AND ($6::smallint IS NULL OR a.lane = $6)
      AND ($7::text IS NULL OR a.tags ? $7)
      AND ($8::uuid IS NULL OR a.cron_job_id = $8)
      AND ($9::timestamptz IS NULL OR a.execute_at >= $9)
      AND ($10::timestamptz IS NULL OR a.execute_at < $10)
      AND ($11::text IS NULL OR a.queue = $11)
      AND ($12::uuid IS NULL OR a.batch_id = $12)
      AND ($13::bigint IS NULL OR x.fingerprint = $13)
    ORDER BY x.resolved_at DESC, x.task_id DESC
    LIMIT $4
), stop AS (
    SELECT resolved_at, task_id
    FROM gnomon.resolution
    WHERE tenant_id = $1 AND (resolved_at, task_id) < ($2, $3) AND (SELECT count(*) FROM page) < $4
    ORDER BY resolved_at DESC, task_id DESC
    OFFSET 9999 LIMIT 1
)
SELECT p.*, coalesce(p.inline_payload, y.payload) AS payload, m.now, NULL::uuid AS stopped_at,
    NULL::timestamptz AS stopped_resolved_at
FROM page AS p
CROSS JOIN moment AS m
LEFT JOIN LATERAL (
    SELECT payload
    FROM gnomon.task_payload
    WHERE p.payload_size IS NOT NULL AND tenant_id = p.tenant_id AND task_id = p.id
    LIMIT 1
) AS y ON true
UNION ALL
SELECT p.*, NULL, NULL, s.task_id, s.resolved_at FROM stop AS s LEFT JOIN page AS p ON false
ORDER BY resolved_at DESC NULLS LAST, id DESC NULLS LAST
