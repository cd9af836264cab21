-- The day that usage is written to now.
SELECT (gnomon.now() AT TIME ZONE 'UTC')::date AS day
