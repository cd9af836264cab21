-- The transactions that have written something and not ended: no row that is still invisible was due
-- before its own began, unless it was backdated by hand. When those of other roles began is shown to few: what
-- gnomon.submit has stored in them, it has left a lock for.
SELECT coalesce(array_agg(began), '{}') AS began, coalesce(array_agg(pid), '{}') AS sessions,
    (SELECT gnomon.now()) AS now
FROM (
    SELECT xact_start AS began, pid
    FROM pg_stat_activity
    WHERE datname = current_database() AND backend_xid IS NOT NULL AND xact_start IS NOT NULL
    UNION ALL
    SELECT to_timestamp((objid::bigint + 2147483648) % 4294967296 - 2147483648 + 946684800), pid
    FROM pg_locks
    WHERE locktype = 'advisory' AND classid = 1735550318 AND objsubid = 2 AND mode = 'ShareLock'
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND NOT pg_has_role('pg_read_all_stats', 'USAGE')
) AS writers
