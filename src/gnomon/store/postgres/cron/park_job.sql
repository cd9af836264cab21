-- Pause a job that cannot be planned.
UPDATE gnomon.cron_job
SET next_fire_at = NULL, paused_at = m.now, updated_at = m.now, pause_reason = $4,
    paused_by = NULL,
    version = version + 1
FROM (SELECT gnomon.now() AS now) AS m
WHERE tenant_id = $1 AND id = $2 AND version = $3
