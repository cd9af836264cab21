-- A subscription by its name ($2), of a tenant ($1; null: of the installation).
SELECT {subscriptions}
FROM gnomon.subscription
WHERE (tenant_id = $1 OR ($1::text IS NULL AND tenant_id IS NULL)) AND name = $2
