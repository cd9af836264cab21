-- Chores that have failed for longer than $1 seconds in some process, as a whole. At most $2.
SELECT chore, min(since) AS since, count(*) AS processes
FROM gnomon.trouble
WHERE tenant_id = '' AND subject = '' AND known_until > gnomon.now()
GROUP BY chore
HAVING min(since) < gnomon.now() - make_interval(secs => $1::float8)
ORDER BY chore
LIMIT $2
