-- Remove a subscription, with its inbox.
DELETE FROM gnomon.subscription
WHERE (tenant_id = $1 OR ($1::text IS NULL AND tenant_id IS NULL)) AND name = $2
RETURNING id
