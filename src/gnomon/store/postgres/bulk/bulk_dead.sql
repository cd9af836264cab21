-- Unresolved dead letters, newest first, that a bulk operation is for: at most $3, among $4 that are
-- examined, which are those of one group where $18 is its fingerprint. A last row without a match says
-- where the examining stopped (stopped_at), where that was before the end.
-- $1 tenant, $2 older than this id; the others are filters: see bulk_matching.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
), page AS MATERIALIZED (
    SELECT e.id
    FROM (
        SELECT u.*
        FROM (
            (SELECT
                id, state, task_type, lane, tags, cron_job_id, due_at, started_at, queue, attempt, last_error, batch_id,
                due_at AS over_at
            FROM gnomon.task
            WHERE state = 4 AND tenant_id = $1 AND id < $2 AND $18::bigint IS NULL
            ORDER BY id DESC
            LIMIT $4::integer)
            UNION ALL
            (SELECT
                id, state, task_type, lane, tags, cron_job_id, due_at, started_at, queue, attempt, last_error, batch_id,
                due_at
            FROM gnomon.task
            WHERE state = 4 AND tenant_id = $1 AND id < $2 AND fingerprint = $18
            ORDER BY id DESC
            LIMIT $4::integer)
        ) AS u
        ORDER BY u.id DESC
        LIMIT $4::integer
    ) AS e
    WHERE {bulk_matching}
    ORDER BY e.id DESC
    LIMIT $3::integer
), stop AS (
    SELECT i.id
    FROM (
        (SELECT id FROM gnomon.task
         WHERE state = 4 AND tenant_id = $1 AND id < $2 AND $18 IS NULL
         ORDER BY id DESC LIMIT $4::integer)
        UNION ALL
        (SELECT id FROM gnomon.task
         WHERE state = 4 AND tenant_id = $1 AND id < $2 AND fingerprint = $18
         ORDER BY id DESC LIMIT $4::integer)
    ) AS i
    WHERE (SELECT count(*) FROM page) < $3
    ORDER BY i.id DESC
    OFFSET $4::integer - 1 LIMIT 1
)
SELECT id, NULL::uuid AS stopped_at FROM page
UNION ALL
SELECT NULL, id FROM stop
