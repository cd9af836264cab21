-- Runs of workflows that ended before $1, with their nodes, outputs and signals, about $2 rows at once: a
-- run itself once nothing of it is left.
WITH run AS MATERIALIZED (
    SELECT r.tenant_id, r.id
    FROM gnomon.workflow_run AS r
    WHERE r.finished_at < $1
      -- A dead letter of it may need what is kept here, when it is retried.
      AND NOT EXISTS (
          SELECT FROM gnomon.task AS t
          WHERE t.tenant_id = r.tenant_id AND t.workflow_run_id = r.id AND t.state = 4
      )
    ORDER BY r.finished_at
    LIMIT least($2::integer, 100)
    FOR UPDATE SKIP LOCKED
), node AS MATERIALIZED (
    SELECT n.place, n.tenant_id, n.task_id
    FROM run AS r
    CROSS JOIN LATERAL (
        SELECT w.ctid AS place, w.tenant_id, w.task_id
        FROM gnomon.workflow_node AS w
        WHERE w.tenant_id = r.tenant_id AND w.run_id = r.id
        LIMIT $2::integer
    ) AS n
    LIMIT $2::integer
), result AS MATERIALIZED (
    SELECT n.place
    FROM run AS r
    CROSS JOIN LATERAL (
        SELECT w.ctid AS place
        FROM gnomon.workflow_result AS w
        WHERE w.tenant_id = r.tenant_id AND w.run_id = r.id
        LIMIT $2::integer
    ) AS n
    LIMIT $2::integer
), edges AS (
    DELETE FROM gnomon.workflow_edge AS x
    USING node AS n
    WHERE x.tenant_id = n.tenant_id AND x.parent_id = n.task_id
), nodes AS (
    DELETE FROM gnomon.workflow_node WHERE ctid = ANY (ARRAY(SELECT place FROM node)) RETURNING 1
), results AS (
    DELETE FROM gnomon.workflow_result WHERE ctid = ANY (ARRAY(SELECT place FROM result)) RETURNING 1
), signals AS (
    DELETE FROM gnomon.workflow_signal WHERE ctid = ANY (ARRAY(
        SELECT n.place
        FROM run AS r
        CROSS JOIN LATERAL (
            SELECT w.ctid AS place
            FROM gnomon.workflow_signal AS w
            WHERE w.tenant_id = r.tenant_id AND w.run_id = r.id
            OFFSET 0
        ) AS n
    ))
    RETURNING 1
), compensations AS (
    DELETE FROM gnomon.workflow_compensation WHERE ctid = ANY (ARRAY(
        SELECT n.place
        FROM run AS r
        CROSS JOIN LATERAL (
            SELECT w.ctid AS place
            FROM gnomon.workflow_compensation AS w
            WHERE w.tenant_id = r.tenant_id AND w.run_id = r.id
            OFFSET 0
        ) AS n
    ))
    RETURNING 1
), runs AS (
    DELETE FROM gnomon.workflow_run AS w
    USING run AS r
    WHERE w.tenant_id = r.tenant_id AND w.id = r.id
      AND NOT EXISTS (
          SELECT FROM gnomon.workflow_node AS n WHERE n.tenant_id = r.tenant_id AND n.run_id = r.id
      )
      AND NOT EXISTS (
          SELECT FROM gnomon.workflow_result AS e WHERE e.tenant_id = r.tenant_id AND e.run_id = r.id
      )
    RETURNING 1
)
SELECT (SELECT count(*) FROM nodes) + (SELECT count(*) FROM results) + (SELECT count(*) FROM signals)
    + (SELECT count(*) FROM compensations) + (SELECT count(*) FROM runs) AS removed
