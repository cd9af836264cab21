-- Move tasks that this transaction has locked to another time (CHANGE). $3 the time.
UPDATE gnomon.task AS t
SET execute_at = $3::timestamptz, due_at = greatest($3::timestamptz, m.now)
FROM (SELECT gnomon.now() AS now) AS m
WHERE t.tenant_id = $1 AND t.id = ANY ($2::uuid[])
RETURNING t.id, t.due_at
