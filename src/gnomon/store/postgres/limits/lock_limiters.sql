-- Keep others from adding limiters to a tenant, until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('gnomon.limiter ' || $1::text, 0))
