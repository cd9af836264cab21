-- Consent: the token is good once.
UPDATE gnomon.subscription
SET confirmed_at = gnomon.now(), token_hash = NULL, token_until = NULL
WHERE token_hash = $1 AND token_until > gnomon.now()
RETURNING {subscriptions}
