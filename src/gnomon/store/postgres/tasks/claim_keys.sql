-- Take idempotency keys that are new or expired, in one order, so that two batches cannot deadlock.
-- A key that another transaction is taking is waited for; one that was used before is locked and
-- left out of the answer.
-- $1 tenants, $2 keys, $3 fingerprints, $4 task ids, $5 answers, $6 seconds to keep them.
INSERT INTO gnomon.idempotency AS i (tenant_id, key, fingerprint, task_id, answer, expires_at)
SELECT k.tenant_id, k.key, k.fingerprint, k.task_id, k.answer,
       m.now + make_interval(secs => $6::float8)
FROM unnest($1::text[], $2::text[], $3::bytea[], $4::uuid[], $5::json[])
        AS k (tenant_id, key, fingerprint, task_id, answer),
     (SELECT gnomon.now() AS now) AS m
ORDER BY k.tenant_id COLLATE "C", k.key COLLATE "C"
ON CONFLICT (tenant_id, key) DO UPDATE
SET fingerprint = excluded.fingerprint,
    task_id = excluded.task_id,
    answer = excluded.answer,
    expires_at = excluded.expires_at
WHERE i.expires_at <= gnomon.now()
RETURNING i.tenant_id, i.key
