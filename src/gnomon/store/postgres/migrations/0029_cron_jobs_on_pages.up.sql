-- Who paused a job, and a number that grows with its definition only: whoever edits a job says which
-- definition they saw. (version grows with triggers and pauses, too.)
ALTER TABLE gnomon.cron_job
    ADD COLUMN paused_by text,
    ADD COLUMN definition_version bigint NOT NULL DEFAULT 1;

-- The latest entries of a job's ledger that are not later than p_until, newest first: read by the
-- primary key from its end, whatever the planner believes of partitions.
CREATE FUNCTION gnomon.read_latest_fires(
    p_tenant text,
    p_job uuid,
    p_until timestamptz,
    p_most integer
) RETURNS SETOF gnomon.occurrence
LANGUAGE plpgsql STABLE ROWS 30
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off
AS $$
BEGIN
RETURN QUERY
SELECT *
FROM gnomon.occurrence AS o
WHERE o.cron_job_id = p_job AND o.tenant_id = p_tenant AND o.fire_at <= p_until
ORDER BY o.fire_at DESC
LIMIT p_most;
END
$$;
