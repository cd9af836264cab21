-- Nothing is left to do about these nodes. $1/$2 the keys, in order.
WITH node AS MATERIALIZED (
    SELECT n.tenant_id, n.task_id
    FROM unnest((SELECT $1::text[]), (SELECT $2::uuid[])) AS k (tenant_id, id)
    JOIN gnomon.workflow_node AS n ON n.tenant_id = k.tenant_id AND n.task_id = k.id
    ORDER BY n.tenant_id, n.task_id
    FOR UPDATE OF n
)
UPDATE gnomon.workflow_node AS n SET step = 0
FROM node AS d
WHERE n.tenant_id = d.tenant_id AND n.task_id = d.task_id AND n.step IN (1, 2)
