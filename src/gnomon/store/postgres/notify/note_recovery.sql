-- A notification of a subscription ($1) was sent again.
UPDATE gnomon.subscription SET failing_since = NULL, failure = NULL
WHERE id = $1 AND failing_since IS NOT NULL
