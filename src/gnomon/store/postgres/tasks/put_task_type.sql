-- Give a task type its schema ($3) and its defaults ($6). Gives nothing back where that would be one
-- more than a tenant may have ($4), or more bytes than it may ($5).
INSERT INTO gnomon.task_type AS t (tenant_id, name, schema, defaults, created_at, updated_at)
SELECT $1, $2, $3::json, $6::json, now, now
FROM gnomon.now()
CROSS JOIN LATERAL (
    SELECT count(*) AS number,
        coalesce(sum(octet_length(o.schema::text) + coalesce(octet_length(o.defaults::text), 0)), 0)
            AS bytes
    FROM gnomon.task_type AS o
    WHERE o.tenant_id = $1 AND o.name <> $2
) AS others
WHERE others.number < $4::integer
  AND others.bytes + octet_length($3::text) + coalesce(octet_length($6::text), 0) <= $5::integer
ON CONFLICT (tenant_id, name) DO UPDATE
SET schema = excluded.schema, defaults = excluded.defaults, updated_at = excluded.updated_at
RETURNING name, schema, defaults, created_at, updated_at, t.xmax = 0 AS created
