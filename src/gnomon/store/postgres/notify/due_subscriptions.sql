-- The subscriptions that events of some tenants ($1) may concern, and those whose time has come by
-- $2, at most $4 of these, with their inboxes. $3: whether those of the installation are among them. They
-- are locked in one order; whoever changes one of them waits.
SELECT {s.subscriptions}, i.inbox, i.next_at
FROM gnomon.subscription AS s
LEFT JOIN gnomon.subscription_inbox AS i ON i.subscription_id = s.id
WHERE s.id = ANY (ARRAY(
    SELECT id FROM gnomon.subscription WHERE tenant_id = ANY ($1::text[])
    UNION
    SELECT id FROM gnomon.subscription WHERE $3::boolean AND tenant_id IS NULL
    UNION
    (
        SELECT subscription_id FROM gnomon.subscription_inbox
        WHERE next_at <= $2
        ORDER BY next_at
        LIMIT $4::integer
    )
))
ORDER BY s.id
FOR NO KEY UPDATE OF s
