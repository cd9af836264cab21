-- Keep others from adding saved views to a tenant, until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('gnomon.saved_view ' || $1::text, 0))
