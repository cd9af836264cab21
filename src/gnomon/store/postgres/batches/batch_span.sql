-- When a batch was opened, and until when tasks could be put in.
SELECT created_at AS opened_at, coalesce(closed_at, gnomon.now()) AS closed_at
FROM gnomon.batch
WHERE tenant_id = $1 AND id = $2
