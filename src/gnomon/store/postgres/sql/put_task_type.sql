-- Give a task type its schema ($3), unless it would be one more than a tenant may have ($4): then
-- nothing is given back.
INSERT INTO gnomon.task_type AS t (tenant_id, name, schema, created_at, updated_at)
SELECT $1, $2, $3::json, now, now
FROM gnomon.now()
WHERE EXISTS (SELECT FROM gnomon.task_type WHERE tenant_id = $1 AND name = $2)
   OR (SELECT count(*) FROM gnomon.task_type WHERE tenant_id = $1) < $4::integer
ON CONFLICT (tenant_id, name) DO UPDATE
SET schema = excluded.schema, updated_at = excluded.updated_at
RETURNING name, schema, created_at, updated_at, t.xmax = 0 AS created
