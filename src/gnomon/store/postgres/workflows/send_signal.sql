-- Keep a signal, unless there is one of its name, or the run has $7 already; nodes that wait for it
-- have their turn again. $1 tenant, $2 run, $3 name, $4 data, $5 when, $6 by whom.
WITH sent AS (
    INSERT INTO gnomon.workflow_signal (tenant_id, run_id, name, data, sent_at, sent_by)
    SELECT $1, $2, $3, $4::json, $5, $6
    WHERE (
        SELECT count(*) FROM (
            SELECT FROM gnomon.workflow_signal AS s WHERE s.tenant_id = $1 AND s.run_id = $2
            LIMIT $7::integer
        ) AS s
    ) < $7::integer
    ON CONFLICT DO NOTHING
    RETURNING name, data, sent_at, sent_by
), waiting AS MATERIALIZED (
    SELECT n.tenant_id, n.task_id
    FROM gnomon.workflow_node AS n
    WHERE n.tenant_id = $1 AND n.run_id = $2 AND n.signal = $3 AND n.step = -1
      AND EXISTS (SELECT FROM sent)
    ORDER BY n.task_id
    FOR UPDATE
), woken AS (
    UPDATE gnomon.workflow_node AS n SET step = 1
    FROM waiting AS w
    WHERE n.tenant_id = w.tenant_id AND n.task_id = w.task_id
)
SELECT name, data, sent_at, sent_by FROM sent
