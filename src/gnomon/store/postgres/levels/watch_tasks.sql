-- Watch tasks of tenant $1 by their times and levels, which have changed. $2 their ids, $3 whether they had no
-- deadline before. A task with a level and no row was judged: neither its start nor the executions that it
-- had are judged again. Needs the transaction that has locked the tasks.
WITH known AS MATERIALIZED (
    SELECT task_id, start_judged
    FROM gnomon.watched_task
    WHERE tenant_id = $1 AND task_id = ANY ($2::uuid[])
    FOR UPDATE  -- waits for whoever judges them now
)
INSERT INTO gnomon.watched_task AS w (tenant_id, task_id, start_by, start_judged, told_fence, look_at)
SELECT t.tenant_id, t.id, s.start_by, j.judged, t.fence, s.look_at
FROM gnomon.task AS t
LEFT JOIN known AS k ON k.task_id = t.id
CROSS JOIN LATERAL gnomon.watched(t) AS l
CROSS JOIN LATERAL (SELECT coalesce(k.start_judged, NOT $3::boolean) AS judged) AS j
CROSS JOIN LATERAL (
    SELECT CASE WHEN NOT j.judged THEN l.start_by END AS start_by,
        CASE WHEN NOT j.judged THEN l.look_at
            ELSE t.due_at + make_interval(secs => t.warn_after_seconds) END AS look_at
) AS s
WHERE t.tenant_id = $1 AND t.id = ANY ($2::uuid[]) AND s.look_at IS NOT NULL
ON CONFLICT (tenant_id, task_id) DO UPDATE
SET start_by = excluded.start_by,
    look_at = excluded.look_at
