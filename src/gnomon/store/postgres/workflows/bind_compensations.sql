-- Make new tasks of this transaction the compensations of a run: each waits for those of what came after
-- its node to have ended; a dead letter among them holds it up. The end of the run waits for all.
-- $1 tenant, $2 run, then of each: $3 task, $4 the node that it undoes, $5 what it waits for, as JSON,
-- $6 template; of each edge: $7 parents, $8 children.
WITH new AS MATERIALIZED (
    SELECT c.*, json_array_length(c.after) AS parents
    FROM unnest($3::uuid[], $4::text[], $5::json[], $6::json[]) WITH ORDINALITY
        AS c (task_id, node, after, template, place)
), nodes AS (
    INSERT INTO gnomon.workflow_node (
        tenant_id, task_id, run_id, node, place, after, rule, parents, waits, template, decided, step,
        compensates
    )
    SELECT $1, n.task_id, $2, 'compensate:' || n.node, 1000000 + n.place,
        ARRAY(SELECT 'compensate:' || json_array_elements_text(n.after)), 1, n.parents, n.parents,
        n.template, n.parents = 0, CASE WHEN n.parents = 0 THEN 1 ELSE 0 END, n.node
    FROM new AS n
), edges AS (
    INSERT INTO gnomon.workflow_edge (tenant_id, parent_id, child_id, at_death)
    SELECT $1, e.parent_id, e.child_id, false
    FROM unnest($7::uuid[], $8::uuid[]) AS e (parent_id, child_id)
), finish AS (
    UPDATE gnomon.workflow_node
    SET decided = false, step = 0, parents = cardinality($3), waits = cardinality($3), succeeded = 0,
        failed = 0
    WHERE tenant_id = $1 AND task_id = $2
), run AS (
    UPDATE gnomon.workflow_run SET compensated = true WHERE tenant_id = $1 AND id = $2
), unwatched AS (
    UPDATE gnomon.watched_task AS w
    SET start_by = NULL, look_at = 'infinity'
    FROM new AS n
    WHERE w.tenant_id = $1 AND w.task_id = n.task_id
)
UPDATE gnomon.task AS t
SET workflow_run_id = $2, workflow_node = 'compensate:' || n.node, state = 3
FROM new AS n
WHERE t.tenant_id = $1 AND t.id = n.task_id
