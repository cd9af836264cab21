-- Let nodes of a run lend what became of them to a new run, which this transaction has stored, and count
-- that for those that come after them: their turn has come, or never will, or others are waited for.
-- $1 tenant, $2 the new run, $3 the run that lends, then of each node: $4 its name, $5 its id in the new
-- run.
WITH lent AS MATERIALIZED (
    SELECT o.node, o.after, k.task_id, coalesce(o.borrows, o.task_id) AS borrows, e.state,
        e.finished_at, e.output, e.too_large, k.place
    FROM unnest($4::text[], $5::uuid[]) WITH ORDINALITY AS k (node, task_id, place)
    JOIN gnomon.workflow_node AS o ON o.tenant_id = $1 AND o.run_id = $3 AND o.node = k.node
    JOIN gnomon.workflow_result AS e ON e.tenant_id = $1 AND e.task_id = o.task_id
), nodes AS (
    INSERT INTO gnomon.workflow_node
        (tenant_id, task_id, run_id, node, place, after, decided, borrows)
    SELECT $1, l.task_id, $2, l.node, l.place - 1000000, l.after, true, l.borrows FROM lent AS l
), results AS (
    INSERT INTO gnomon.workflow_result
        (tenant_id, task_id, run_id, node, state, finished_at, output, too_large)
    SELECT $1, l.task_id, $2, l.node, l.state, l.finished_at, l.output, l.too_large FROM lent AS l
), counted AS (
    SELECT n.task_id, count(*) AS ended,
        count(*) FILTER (WHERE l.state = 1) AS succeeded,
        count(*) FILTER (WHERE l.state = 2) AS failed
    FROM gnomon.workflow_node AS n
    JOIN lent AS l ON l.node = ANY (n.after)
    WHERE n.tenant_id = $1 AND n.run_id = $2
    GROUP BY n.task_id
), ruled AS (
    SELECT n.task_id, c.ended, c.succeeded, c.failed, n.waits - c.ended AS waits,
        CASE n.rule
            WHEN 0 THEN n.waits = c.ended AND c.succeeded = n.parents
            WHEN 1 THEN n.waits = c.ended
            WHEN 2 THEN c.failed > 0
            ELSE c.succeeded > 0
        END AS ready
    FROM gnomon.workflow_node AS n
    JOIN counted AS c ON c.task_id = n.task_id
    WHERE n.tenant_id = $1
)
UPDATE gnomon.workflow_node AS n
SET waits = r.waits, succeeded = r.succeeded, failed = r.failed,
    decided = r.ready OR r.waits = 0,
    step = CASE WHEN r.ready THEN 1 WHEN r.waits = 0 THEN 2 ELSE 0 END
FROM ruled AS r
WHERE n.tenant_id = $1 AND n.task_id = r.task_id
