-- The transactions that have written something and not ended: no row that is still invisible was due
-- before its own began, unless it was backdated by hand.
SELECT coalesce(array_agg(xact_start), '{}') AS began, coalesce(array_agg(pid), '{}') AS sessions,
    (SELECT gnomon.now()) AS now
FROM pg_stat_activity
WHERE datname = current_database() AND backend_xid IS NOT NULL AND xact_start IS NOT NULL
