-- A new cron job. Gives nothing where its name is taken.
INSERT INTO gnomon.cron_job (
    tenant_id, id, name, source, tags, definition, next_fire_at, created_at, updated_at, created_by
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9)
ON CONFLICT (tenant_id, name) DO NOTHING
RETURNING *
