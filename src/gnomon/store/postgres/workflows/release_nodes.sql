-- Use the edges of nodes that have ended before, a part of them at a time. $1/$2 the keys, in order,
-- $3 what their tasks count as: see pass_nodes.
WITH node AS MATERIALIZED (
    SELECT n.tenant_id, n.task_id
    FROM unnest((SELECT $1::text[]), (SELECT $2::uuid[])) AS k (tenant_id, id)
    JOIN gnomon.workflow_node AS n ON n.tenant_id = k.tenant_id AND n.task_id = k.id
    ORDER BY n.tenant_id, n.task_id
    FOR UPDATE OF n
), done AS (
    UPDATE gnomon.workflow_node AS n SET step = 0
    FROM node AS d
    WHERE n.tenant_id = d.tenant_id AND n.task_id = d.task_id
    RETURNING 1
)
SELECT p.*, false AS ended
FROM (SELECT count(*) FROM done) AS d
CROSS JOIN LATERAL gnomon.pass_nodes($1::text[], $2::uuid[], $3::smallint[], '{}') AS p
WHERE d.count >= 0
