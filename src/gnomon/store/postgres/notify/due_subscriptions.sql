-- The subscriptions that events of some tenants ($1) may concern, and those whose time has come by
-- $2, with their inboxes. $3: whether those of the installation are among them. They are locked in one
-- order; whoever changes one of them waits.
SELECT {s.subscriptions}, i.inbox, i.next_at
FROM gnomon.subscription AS s
LEFT JOIN gnomon.subscription_inbox AS i ON i.subscription_id = s.id
WHERE s.tenant_id = ANY ($1::text[]) OR ($3::boolean AND s.tenant_id IS NULL) OR i.next_at <= $2
ORDER BY s.id
FOR NO KEY UPDATE OF s
