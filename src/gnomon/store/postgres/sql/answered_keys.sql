-- What was answered to requests that were made before, by key and fingerprint, and is still kept.
-- $1 tenant, $2 keys, $3 fingerprints.
SELECT i.key, i.fingerprint, i.answer
FROM unnest($2::text[], $3::bytea[]) AS k (key, fingerprint)
JOIN gnomon.idempotency AS i
    ON i.tenant_id = $1 AND i.key = k.key AND i.fingerprint = k.fingerprint
WHERE i.expires_at > (SELECT gnomon.now())
