-- What was answered under keys that were used before.
SELECT i.tenant_id, i.key, i.fingerprint, i.task_id, i.answer
FROM unnest($1::text[], $2::text[]) AS k (tenant_id, key)
CROSS JOIN LATERAL (
    SELECT * FROM gnomon.idempotency AS o WHERE o.tenant_id = k.tenant_id AND o.key = k.key
    OFFSET 0  -- a probe for each, never a join
) AS i
