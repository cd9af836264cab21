-- Whether anything could be stored here now.
SELECT pg_is_in_recovery() AS standby
