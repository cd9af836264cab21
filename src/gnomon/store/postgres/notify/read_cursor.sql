-- How far events have been read for subscriptions, whether there are any, and when one of them has to
-- be looked at.
SELECT number, EXISTS (SELECT FROM gnomon.subscription) AS wanted,
    (SELECT min(next_at) FROM gnomon.subscription_inbox) AS next_at
FROM gnomon.subscription_cursor
