-- Let a webhook secret end after so many seconds.
UPDATE gnomon.webhook_secret
SET expires_at = gnomon.now() + make_interval(secs => $3)
WHERE tenant_id = $1 AND id = $2
