-- Make new tasks of this transaction the elements of a mapped node, or what a node has spawned; it waits
-- for them.
-- $1 tenant, $2 run, $3 that node, $4 its on_failure, $5 the place of the first; of each: $6 task,
-- $7 name. $8 their kind, $9 what they come after, $10 whether the run is paused (PAUSE -> PAUSED).
WITH new AS MATERIALIZED (
    SELECT * FROM unnest($6::uuid[], $7::text[]) WITH ORDINALITY AS e (task_id, node, place)
), nodes AS (
    INSERT INTO gnomon.workflow_node
        (tenant_id, task_id, run_id, node, place, kind, on_failure, decided, after)
    SELECT $1, n.task_id, $2, n.node, $5::integer + n.place - 1, $8::smallint, $4::smallint, true,
        $9::text[]
    FROM new AS n
), edges AS (
    INSERT INTO gnomon.workflow_edge (tenant_id, parent_id, child_id, at_death)
    SELECT $1, n.task_id, $3, false FROM new AS n
), mapped AS (
    UPDATE gnomon.workflow_node
    SET expanded = expanded + cardinality($6),
        step = CASE WHEN expanded + cardinality($6) = elements THEN 0 ELSE 1 END
    WHERE tenant_id = $1 AND task_id = $3
)
UPDATE gnomon.task AS t
SET workflow_run_id = $2, workflow_node = n.node,
    state = CASE WHEN $10::boolean THEN 2 ELSE t.state END
FROM new AS n
WHERE t.tenant_id = $1 AND t.id = n.task_id
