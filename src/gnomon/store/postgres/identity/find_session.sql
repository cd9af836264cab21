-- The encrypted credentials of a session that has not ended.
SELECT sealed FROM gnomon.session WHERE name = $1 AND ends_at > $2
