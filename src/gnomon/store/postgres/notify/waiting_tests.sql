-- How many tests of a subscription ($2) have not ended, among its last notifications. $1 the tenant of
-- notifications, $3 the purpose of tests.
SELECT count(*) AS number
FROM gnomon.subscription_inbox AS i
CROSS JOIN LATERAL unnest(i.recent) AS r (id)
JOIN gnomon.task AS t ON t.tenant_id = $1 AND t.id = r.id AND t.state <> 4
WHERE i.subscription_id = $2 AND t.payload ->> 'purpose' = $3
