-- The start of the oldest transaction that has written something and not ended: no row that is
-- still invisible was due before it, unless it was backdated by hand.
SELECT least(min(xact_start), (SELECT gnomon.now())) AS since, (SELECT gnomon.now()) AS now
FROM pg_stat_activity
WHERE datname = current_database() AND backend_xid IS NOT NULL
