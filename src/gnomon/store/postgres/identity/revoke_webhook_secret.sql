-- Revoke a webhook secret, and delete its value. One that was revoked before stays as it is.
UPDATE gnomon.webhook_secret
SET revoked_at = coalesce(revoked_at, gnomon.now()), secret = ''
WHERE tenant_id = $1 AND id = $2
