-- Store a subscription, in the place of one of its name. Gives nothing back where that would be one
-- more than may be ($7). Another channel has to be confirmed, and may work.
-- $1 id, $2 tenant, $3 name, $4 channel, $5 rules, $6 who.
INSERT INTO gnomon.subscription AS s
    (id, tenant_id, name, channel, rules, created_by, created_at, updated_at)
SELECT $1, $2, $3, $4::json, $5::json, $6, now, now
FROM gnomon.now()
WHERE (
    SELECT count(*)
    FROM gnomon.subscription AS o
    WHERE (o.tenant_id = $2 OR ($2::text IS NULL AND o.tenant_id IS NULL)) AND o.name <> $3
) < $7::integer
ON CONFLICT (tenant_id, name) DO UPDATE
SET channel = excluded.channel, rules = excluded.rules, updated_at = excluded.updated_at,
    confirmed_at = CASE WHEN s.channel::text = excluded.channel::text THEN s.confirmed_at END,
    failing_since = CASE WHEN s.channel::text = excluded.channel::text THEN s.failing_since END,
    failure = CASE WHEN s.channel::text = excluded.channel::text THEN s.failure END,
    token_hash = NULL, token_until = NULL
RETURNING {subscriptions}, s.xmax = 0 AS created
