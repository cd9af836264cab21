-- Store a batch, unless the tenant has $9 open ones; its callbacks, which this transaction has stored, are
-- BLOCKED until their turn (WAITING, BLOCK -> BLOCKED), and nobody minds how late they start.
-- $1 tenant, $2 id, $3 name, $4 deadline, $5 created at, $6 by, $7 on_success, $8 on_complete.
WITH stored AS (
    INSERT INTO gnomon.batch
        (tenant_id, id, name, deadline, created_at, created_by, on_success, on_complete)
    SELECT $1, $2, $3, $4, $5, $6, $7::uuid, $8::uuid
    WHERE (
        SELECT count(*) FROM (
            SELECT FROM gnomon.batch AS b WHERE b.tenant_id = $1 AND b.state = 0 LIMIT $9::integer
        ) AS b
    ) < $9::integer
    RETURNING id
), unwatched AS (
    UPDATE gnomon.watched_task AS w
    SET start_by = NULL, look_at = 'infinity'
    WHERE w.tenant_id = $1 AND w.task_id IN ($7, $8)
), blocked AS (
    UPDATE gnomon.task AS t
    SET batch_id = $2, workflow_node = CASE WHEN t.id = $7 THEN 'on_success' ELSE 'on_complete' END,
        state = 3
    WHERE t.tenant_id = $1 AND t.id IN ($7, $8)
)
SELECT id FROM stored
