-- Make new tasks of this transaction the nodes of runs; those that wait for others are BLOCKED
-- (WAITING, BLOCK -> BLOCKED), and nobody minds how late they start. The end of a run, which has no
-- task, is its node without a name. The task of its id, if there is one, is the run of a cron job: it is
-- running, and stays so.
-- $1 tenant, then of each node: $2 runs, $3 tasks, $4 names, $5 what they wait for, as JSON, $6 rules,
-- $7 on_failure, $8 how many they wait for, $9 templates, $10 kinds, $11 places; of each edge:
-- $12 parents, $13 children, $14 whether a dead letter uses it.
WITH node AS MATERIALIZED (
    SELECT * FROM unnest(
        $2::uuid[], $3::uuid[], $4::text[], $5::json[], $6::smallint[], $7::smallint[],
        $8::integer[], $9::json[], $10::smallint[], $11::integer[]
    ) AS n (run_id, task_id, node, after, rule, on_failure, parents, template, kind, place)
), nodes AS (
    INSERT INTO gnomon.workflow_node (
        tenant_id, task_id, run_id, node, place, after, rule, on_failure, parents, waits, template,
        kind, decided, step
    )
    SELECT $1, n.task_id, n.run_id, n.node, n.place,
        ARRAY(SELECT json_array_elements_text(n.after)), n.rule, n.on_failure, n.parents, n.parents,
        n.template, n.kind, n.parents = 0,
        CASE WHEN n.parents = 0 AND n.template IS NOT NULL THEN 1 ELSE 0 END
    FROM node AS n
), edges AS (
    INSERT INTO gnomon.workflow_edge (tenant_id, parent_id, child_id, at_death)
    SELECT $1, e.parent_id, e.child_id, e.at_death
    FROM unnest($12::uuid[], $13::uuid[], $14::boolean[]) AS e (parent_id, child_id, at_death)
), unwatched AS (
    UPDATE gnomon.watched_task AS w
    SET start_by = NULL, look_at = 'infinity'
    FROM node AS n
    WHERE w.tenant_id = $1 AND w.task_id = n.task_id AND n.node <> ''
      AND (n.parents > 0 OR n.template IS NOT NULL)
)
UPDATE gnomon.task AS t
SET workflow_run_id = n.run_id, workflow_node = n.node,
    state = CASE WHEN n.parents > 0 OR n.template IS NOT NULL THEN 3 ELSE t.state END
FROM node AS n
WHERE t.tenant_id = $1 AND t.id = n.task_id AND n.node <> ''
