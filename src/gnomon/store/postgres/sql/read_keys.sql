-- What was answered under keys that were used before.
SELECT i.tenant_id, i.key, i.fingerprint, i.task_id, i.answer
FROM unnest($1::text[], $2::text[]) AS k (tenant_id, key)
JOIN gnomon.idempotency AS i ON i.tenant_id = k.tenant_id AND i.key = k.key
