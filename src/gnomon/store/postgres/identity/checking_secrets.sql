-- What signatures of a tenant's calls are checked with: live secrets, and public keys of v1a.
SELECT coalesce(public_key, secret) AS secret
FROM gnomon.webhook_secret
WHERE tenant_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > gnomon.now())
