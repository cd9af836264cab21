-- The flows that have waiting tasks, in order, after a given one: one probe of task_flow for each,
-- however many tasks they have.
-- $1/$2/$3 after this tenant, lane and flow, $4 flows at most, $5 whether to say what the tasks of
-- each are.
WITH RECURSIVE found AS (
    (
        SELECT t.tenant_id, t.lane, t.flow
        FROM gnomon.task AS t
        WHERE t.state = 0 AND (t.tenant_id, t.lane, t.flow) > ($1, $2::smallint, $3::bigint)
        ORDER BY t.tenant_id, t.lane, t.flow
        LIMIT 1
    )
    UNION ALL
    SELECT n.tenant_id, n.lane, n.flow
    FROM found AS f
    CROSS JOIN LATERAL (
        SELECT t.tenant_id, t.lane, t.flow
        FROM gnomon.task AS t
        WHERE t.state = 0 AND (t.tenant_id, t.lane, t.flow) > (f.tenant_id, f.lane, f.flow)
        ORDER BY t.tenant_id, t.lane, t.flow
        LIMIT 1
    ) AS n
)
SELECT f.tenant_id, f.lane, f.flow, t.task_type, t.queue
FROM found AS f
LEFT JOIN LATERAL (
    SELECT task.task_type, task.queue
    FROM gnomon.task
    WHERE $5::boolean
      AND task.state = 0
      AND task.tenant_id = f.tenant_id
      AND task.lane = f.lane
      AND task.flow = f.flow
    ORDER BY task.due_at, task.id
    LIMIT 1
) AS t ON true
LIMIT $4
