-- subscriptions: the columns of a subscription, as subscription_of reads them.
id, tenant_id, name, channel, rules, created_by, created_at, muted_until, confirmed_at, failing_since, failure
