-- Store inboxes: $1 subscriptions, $2 inboxes, $3 when each is looked at again.
INSERT INTO gnomon.subscription_inbox AS i (subscription_id, inbox, next_at)
SELECT * FROM unnest($1::uuid[], $2::json[], $3::timestamptz[])
ON CONFLICT (subscription_id) DO UPDATE SET inbox = excluded.inbox, next_at = excluded.next_at
