-- Remember that an address is asked for its consent: $1 subscription, $2 tenant, $3 hash of the
-- token, $4 how long it is good for.
WITH sent AS (
    INSERT INTO gnomon.confirmation_sent (tenant, at) SELECT $2, now FROM gnomon.now()
)
UPDATE gnomon.subscription
SET token_hash = $3, token_until = gnomon.now() + make_interval(secs => $4::float8)
WHERE id = $1
