-- Record that keys were used just now, at most once a minute for each.
UPDATE gnomon.api_key
SET last_used_at = gnomon.now()
WHERE id = ANY ($1::uuid[])
    AND (last_used_at IS NULL OR last_used_at < gnomon.now() - interval '1 minute')
