-- Write a cron job that this transaction has locked. $8 how many of its planned runs were withdrawn,
-- $13 whether its definition is another one.
UPDATE gnomon.cron_job
SET name = $3, source = $4, tags = $5, definition = $6, next_fire_at = $7, runs = runs - $8,
    paused_at = $9, pause_reason = $10, updated_at = $11, version = version + 1, paused_by = $12,
    definition_version = definition_version + $13::boolean::integer
WHERE tenant_id = $1 AND id = $2
RETURNING *
