-- Subscriptions: who is told of which events, by which channel. The version before neither reads nor
-- writes these tables. tenant_id null: of the installation, hidden from every tenant by row security.
CREATE TABLE gnomon.subscription (
    id            uuid PRIMARY KEY,
    tenant_id     text COLLATE "C" REFERENCES gnomon.tenant (id) ON DELETE CASCADE,
    name          text COLLATE "C" NOT NULL,
    channel       json NOT NULL,        -- gnomon.notify.subscription.Channel; its URL may be a secret
    rules         json NOT NULL,        -- gnomon.notify.subscription.SubscriptionRules
    created_by    text,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    muted_until   timestamptz,
    confirmed_at  timestamptz,          -- of an e-mail address
    token_hash    bytea UNIQUE,         -- SHA-256 of the token that confirms the address
    token_until   timestamptz,
    failing_since timestamptz,          -- the last notification could not be sent, and why
    failure       text,
    UNIQUE NULLS NOT DISTINCT (tenant_id, name)
);
SELECT gnomon.wall('gnomon.subscription', 'SELECT, INSERT, UPDATE, DELETE');

-- What each subscription has not been told yet, and when it is looked at again.
CREATE TABLE gnomon.subscription_inbox (
    subscription_id uuid PRIMARY KEY REFERENCES gnomon.subscription (id) ON DELETE CASCADE,
    inbox           json NOT NULL,      -- gnomon.notify.grouping.Inbox
    next_at         timestamptz,
    recent          uuid[] NOT NULL DEFAULT '{}'  -- tasks of its last notifications, newest first
);
CREATE INDEX subscription_inbox_due ON gnomon.subscription_inbox (next_at) WHERE next_at IS NOT NULL;

-- How far events have been read for subscriptions. Moves in the transaction that makes the tasks.
CREATE TABLE gnomon.subscription_cursor (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    number bigint                       -- null: from now on
);
INSERT INTO gnomon.subscription_cursor DEFAULT VALUES;

-- Messages that ask for the consent of an address, which anybody can make a tenant send: few a time.
CREATE TABLE gnomon.confirmation_sent (
    tenant text COLLATE "C" NOT NULL,   -- '' for the installation
    at     timestamptz NOT NULL
);
CREATE INDEX confirmation_sent_at ON gnomon.confirmation_sent (tenant, at);
