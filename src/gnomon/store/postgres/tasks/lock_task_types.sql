-- Keep others from adding task types to a tenant, until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('gnomon.task_type ' || $1::text, 0))
