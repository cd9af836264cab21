-- The tasks that belong to one: the original that it repeats ($3), the runs of its cron job ($4) right
-- before and after it, and the newest 20 that repeat it. At most 20 entries of the ledger are read in each
-- direction; runs that were missed, and whatever is past retention or deleted, are passed over.
-- $1/$2 the key, $5 the time that it was asked for.
WITH moment AS MATERIALIZED (
    SELECT gnomon.now() AS now
), near AS MATERIALIZED (
    (SELECT fire_at, task_id FROM gnomon.occurrence
     WHERE cron_job_id = $4 AND tenant_id = $1 AND fire_at <= $5
     ORDER BY fire_at DESC LIMIT 20)
    UNION ALL
    (SELECT fire_at, task_id FROM gnomon.occurrence
     WHERE cron_job_id = $4 AND tenant_id = $1 AND fire_at > $5
     ORDER BY fire_at LIMIT 20)
), own AS MATERIALIZED (
    -- It may start later than it fires, by jitter.
    SELECT coalesce((SELECT min(fire_at) FROM near WHERE task_id = $2), $5) AS fire_at
), wanted (place, relation, id) AS (
    SELECT 0, 'original', $3::uuid WHERE $3 IS NOT NULL
    UNION ALL
    (SELECT 1, 'previous_run', n.task_id FROM near AS n, own
     WHERE n.task_id IS NOT NULL AND n.fire_at < own.fire_at
     ORDER BY n.fire_at DESC LIMIT 1)
    UNION ALL
    (SELECT 2, 'next_run', n.task_id FROM near AS n, own
     WHERE n.task_id IS NOT NULL AND n.fire_at > own.fire_at
     ORDER BY n.fire_at LIMIT 1)
    UNION ALL
    (SELECT 3, 'copy', c.id FROM gnomon.task_copy AS c
     WHERE c.tenant_id = $1 AND c.original = $2
     ORDER BY c.id DESC LIMIT 20)
)
SELECT w.relation, w.id, f.state, f.due_at, f.execute_at, f.attempt, m.now
FROM wanted AS w
CROSS JOIN moment AS m
CROSS JOIN LATERAL (
    SELECT state, due_at, execute_at, attempt FROM gnomon.task
    WHERE tenant_id = $1 AND id = w.id
    UNION ALL
    SELECT state, execute_at, execute_at, attempt FROM gnomon.task_archive
    WHERE tenant_id = $1 AND id = w.id
    OFFSET 0  -- a probe for each, never a join
) AS f
ORDER BY w.place, w.id DESC
