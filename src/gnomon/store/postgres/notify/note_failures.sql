-- Remember which subscriptions ($1) cannot be told, and why ($2).
UPDATE gnomon.subscription AS s
SET failing_since = gnomon.now(), failure = f.failure
FROM unnest($1::uuid[], $2::text[]) AS f (id, failure)
WHERE s.id = f.id AND s.failing_since IS NULL
