-- What was answered to requests that were made before, by key and fingerprint, and is still kept.
-- $1 tenant, $2 keys, $3 fingerprints.
SELECT i.key, i.fingerprint, i.answer
FROM unnest($2::text[], $3::bytea[]) AS k (key, fingerprint)
CROSS JOIN LATERAL (
    SELECT * FROM gnomon.idempotency AS o
    WHERE o.tenant_id = $1 AND o.key = k.key AND o.fingerprint = k.fingerprint
    OFFSET 0  -- a probe for each, never a join
) AS i
WHERE i.expires_at > (SELECT gnomon.now())
