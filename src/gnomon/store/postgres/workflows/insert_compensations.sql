-- Store what undoes nodes of a run. $1 tenant, $2 run, then of each: $3 node, $4 task, $5 payload,
-- $6 template.
INSERT INTO gnomon.workflow_compensation (tenant_id, run_id, node, task, payload, template)
SELECT $1, $2, c.node, c.task, c.payload, c.template
FROM unnest($3::text[], $4::json[], $5::json[], $6::json[]) AS c (node, task, payload, template)
