-- Keep others from adding subscriptions to a tenant, until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('gnomon.subscription ' || coalesce($1::text, ''), 0))
