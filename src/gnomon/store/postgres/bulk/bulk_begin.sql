-- A new bulk operation. Gives its row.
INSERT INTO gnomon.bulk_operation (
    tenant_id, id, asked, created_by, started_at, ended_at, status, position, total, capped
)
SELECT $1, $2, $3::json, $4, m.now, CASE WHEN $5 <> 'RUNNING' THEN m.now END, $5, $6, $7, $8
FROM (SELECT gnomon.now() AS now) AS m
RETURNING *
