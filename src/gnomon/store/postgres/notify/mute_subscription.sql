-- Tell a subscription of nothing until $3; null: from now on of everything.
UPDATE gnomon.subscription
SET muted_until = $3, updated_at = gnomon.now()
WHERE (tenant_id = $1 OR ($1::text IS NULL AND tenant_id IS NULL)) AND name = $2
RETURNING {subscriptions}
