DROP FUNCTION gnomon.read_latest_fires(text, uuid, timestamptz, integer);
ALTER TABLE gnomon.cron_job
    DROP COLUMN definition_version,
    DROP COLUMN paused_by;
