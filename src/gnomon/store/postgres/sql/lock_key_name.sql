-- Until the end of the transaction, let nobody else make keys of this name.
SELECT pg_advisory_xact_lock(hashtextextended('gnomon.api_key ' || $1 || ' ' || $2, 0))
