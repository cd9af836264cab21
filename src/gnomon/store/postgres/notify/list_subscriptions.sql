-- The subscriptions of a tenant ($1; null: of the installation), by name: a bounded number of them.
SELECT {subscriptions}
FROM gnomon.subscription
WHERE tenant_id = $1 OR ($1::text IS NULL AND tenant_id IS NULL)
ORDER BY name
