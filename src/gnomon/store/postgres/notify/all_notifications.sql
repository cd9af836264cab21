-- The newest notifications of all subscriptions, live and finished. $1 the tenant of notifications,
-- $2 how many.
SELECT t.*, (SELECT gnomon.now()) AS now
FROM (
    (
        SELECT id, name, queue, state, due_at, attempt, NULL::timestamptz AS finished_at, last_error
        FROM gnomon.task WHERE tenant_id = $1 ORDER BY id DESC LIMIT $2
    )
    UNION ALL
    (
        SELECT id, name, queue, state, execute_at, attempt, finished_at, last_error
        FROM gnomon.task_archive WHERE tenant_id = $1 ORDER BY id DESC LIMIT $2
    )
) AS t
ORDER BY t.id DESC
LIMIT $2
