-- Until the end of the transaction, let nobody else create keys of this tenant (null: of the
-- operators), or revoke them together with those that they created: so none slips through between.
SELECT pg_advisory_xact_lock(hashtextextended('gnomon.api_key ' || coalesce($1::text, ''), 0))
