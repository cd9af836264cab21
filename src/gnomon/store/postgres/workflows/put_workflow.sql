-- Store a definition as the next version of a workflow, unless its newest version is the same; nothing
-- where the tenant has $7 workflows, or this one $8 versions. Gives the version that it is.
WITH newest AS (
    SELECT version, digest, created_at, created_by
    FROM gnomon.workflow
    WHERE tenant_id = $1 AND name = $2
    ORDER BY version DESC
    LIMIT 1
), stored AS (
    INSERT INTO gnomon.workflow (tenant_id, name, version, digest, definition, created_at, created_by)
    SELECT $1, $2, coalesce((SELECT version FROM newest), 0) + 1, $3, $4::json, $5, $6
    WHERE NOT EXISTS (SELECT FROM newest WHERE digest = $3)
      AND (EXISTS (SELECT FROM newest) OR (
          SELECT count(DISTINCT name) FROM gnomon.workflow WHERE tenant_id = $1
      ) < $7::integer)
      AND (SELECT count(*) FROM gnomon.workflow WHERE tenant_id = $1 AND name = $2) < $8::integer
    RETURNING version, created_at, created_by
)
SELECT version, created_at, created_by, true AS created FROM stored
UNION ALL
SELECT version, created_at, created_by, false FROM newest WHERE digest = $3
