-- Types, tags and queues of the newest tasks of a tenant, the commonest first. $2 tasks that are
-- examined, live and finished each; $3 at most of each kind.
WITH recent AS MATERIALIZED (
    (SELECT task_type, queue, tags
     FROM gnomon.task
     WHERE tenant_id = $1
     ORDER BY id DESC
     LIMIT $2::integer)
    UNION ALL
    (SELECT task_type, queue, tags
     FROM gnomon.task_archive
     WHERE tenant_id = $1
     ORDER BY id DESC
     LIMIT $2::integer)
), types AS (
    SELECT 'type' AS kind, task_type AS name, count(*) AS number
    FROM recent
    GROUP BY task_type
    ORDER BY number DESC, name
    LIMIT $3::integer
), queues AS (
    SELECT 'queue' AS kind, queue AS name, count(*) AS number
    FROM recent
    WHERE queue IS NOT NULL
    GROUP BY queue
    ORDER BY number DESC, name
    LIMIT $3::integer
), tags AS (
    SELECT 'tag' AS kind, tag AS name, count(*) AS number
    FROM recent
    CROSS JOIN LATERAL jsonb_array_elements_text(
        CASE WHEN jsonb_typeof(tags) = 'array' THEN tags ELSE '[]' END
    ) AS tag
    GROUP BY tag
    ORDER BY number DESC, name
    LIMIT $3::integer
)
SELECT kind, name FROM types
UNION ALL
SELECT kind, name FROM queues
UNION ALL
SELECT kind, name FROM tags
