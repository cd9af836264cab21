-- Whether any key can be used.
SELECT EXISTS (
    SELECT
    FROM gnomon.api_key
    WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > gnomon.now())
) AS found
