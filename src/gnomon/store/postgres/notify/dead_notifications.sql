-- Notifications that could not be sent, oldest first, with their subscriptions. $1 the tenant of
-- notifications, $2 how many.
SELECT t.id, t.last_error, t.due_at, s.id AS subscription_id, s.tenant_id, s.name,
    s.failing_since IS NULL AS is_first, t.payload ->> 'purpose' AS purpose
FROM gnomon.task AS t
LEFT JOIN gnomon.subscription AS s ON s.id = (t.target ->> 'subscription_id')::uuid
WHERE t.tenant_id = $1 AND t.state = 4
ORDER BY t.id
LIMIT $2
