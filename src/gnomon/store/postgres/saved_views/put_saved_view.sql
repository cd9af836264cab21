-- Save a view, in the place of one of its name. Gives nothing back where that would be one more than a
-- tenant may have ($6).
INSERT INTO gnomon.saved_view AS v (tenant_id, name, filter, columns, created_by, created_at)
SELECT $1, $2, $3::json, $4::text[], $5, now
FROM gnomon.now()
WHERE (SELECT count(*) FROM gnomon.saved_view AS o WHERE o.tenant_id = $1 AND o.name <> $2) < $6::integer
ON CONFLICT (tenant_id, name) DO UPDATE
SET filter = excluded.filter, columns = excluded.columns, created_by = excluded.created_by,
    created_at = excluded.created_at
RETURNING name, filter, columns, created_by, created_at, v.xmax = 0 AS created
