-- Nothing is left to do about nodes that have ended or died, but for those with edges to use. $1/$2 the
-- keys, in order. One that ended before its turn gets a step again when those that it waits for have
-- ended.
WITH node AS MATERIALIZED (
    SELECT n.tenant_id, n.task_id
    FROM unnest((SELECT $1::text[]), (SELECT $2::uuid[])) AS k (tenant_id, id)
    JOIN gnomon.workflow_node AS n ON n.tenant_id = k.tenant_id AND n.task_id = k.id
    ORDER BY n.tenant_id, n.task_id
    FOR UPDATE OF n
)
UPDATE gnomon.workflow_node AS n SET step = 0
FROM node AS d
WHERE n.tenant_id = d.tenant_id AND n.task_id = d.task_id AND n.step > 0
  AND (
      (n.waits > 0 AND (n.rule = 0 OR n.compensates IS NOT NULL OR n.elements IS NOT NULL))
      OR NOT EXISTS (
          SELECT FROM gnomon.workflow_edge AS x
          WHERE x.tenant_id = n.tenant_id AND x.parent_id = n.task_id
            AND (x.at_death OR EXISTS (
                SELECT FROM gnomon.workflow_result AS e
                WHERE e.tenant_id = n.tenant_id AND e.task_id = n.task_id
            ))
      )
  )
