-- Let a key end after so many seconds, if it does not end before.
UPDATE gnomon.api_key
SET expires_at = least(expires_at, gnomon.now() + make_interval(secs => $3))
WHERE tenant_id IS NOT DISTINCT FROM $1 AND id = $2
RETURNING *
