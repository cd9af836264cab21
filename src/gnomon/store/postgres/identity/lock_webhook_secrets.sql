-- Keep others from changing a tenant's webhook secrets, until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('gnomon.webhook_secret ' || $1::text, 0))
