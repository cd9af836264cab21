-- Let nobody else create a cron job of the tenant until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('gnomon.cron_job ' || $1::text, 0))
