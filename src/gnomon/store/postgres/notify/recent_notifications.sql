-- The last notifications of a subscription ($2), or one of them ($3), newest first, each with its
-- last execution. $1 the tenant of notifications.
SELECT r.id, t.state, t.due_at, t.attempt, t.finished_at, t.last_error, e.response_status,
    e.response_body, e.error, (SELECT gnomon.now()) AS now
FROM gnomon.subscription_inbox AS i
CROSS JOIN LATERAL unnest(i.recent) WITH ORDINALITY AS r (id, place)
CROSS JOIN LATERAL (
    SELECT state, due_at, attempt, NULL::timestamptz AS finished_at, last_error
    FROM gnomon.task WHERE tenant_id = $1 AND task.id = r.id
    UNION ALL
    SELECT state, execute_at, attempt, finished_at, last_error
    FROM gnomon.task_archive WHERE tenant_id = $1 AND task_archive.id = r.id
) AS t
LEFT JOIN LATERAL (
    SELECT x.response_status, x.response_body, x.error
    FROM gnomon.all_executions AS x
    WHERE x.tenant_id = $1 AND x.task_id = r.id
    ORDER BY x.fence DESC
    LIMIT 1
) AS e ON true
WHERE i.subscription_id = $2 AND ($3::uuid IS NULL OR r.id = $3)
ORDER BY r.place
