-- Forget what was used more than $1 days ago.
DELETE FROM gnomon.usage WHERE day < (gnomon.now() AT TIME ZONE 'UTC')::date - $1::integer
