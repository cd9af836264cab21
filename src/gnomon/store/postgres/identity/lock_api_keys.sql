-- Until the end of the transaction, let nobody else make keys of this tenant, or end them together
-- with those that were made with them: so none slips through between the two.
SELECT pg_advisory_xact_lock(hashtextextended('gnomon.api_key ' || $1, 0))
