-- Keep the answer with the key that this transaction took.
UPDATE gnomon.idempotency SET answer = $3 WHERE tenant_id = $1 AND key = $2
