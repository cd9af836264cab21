-- Keep others from adding feeds to a tenant, until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('gnomon.feed ' || $1::text, 0))
