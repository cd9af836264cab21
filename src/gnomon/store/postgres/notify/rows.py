"""Converts rows into subscriptions."""

import asyncpg
import msgspec

from gnomon.notify.subscription import Channel, Subscription, SubscriptionRules

_channel = msgspec.json.Decoder(Channel)
_rules = msgspec.json.Decoder(SubscriptionRules)


def subscription_of(row: asyncpg.Record) -> Subscription:
    """Raises ValueError for what somebody has written by hand."""
    return Subscription(
        id=row["id"],
        tenant_id=row["tenant_id"],
        name=row["name"],
        channel=_channel.decode(row["channel"]),
        rules=_rules.decode(row["rules"]),
        created_by=row["created_by"],
        created_at=row["created_at"],
        muted_until=row["muted_until"],
        confirmed_at=row["confirmed_at"],
        failing_since=row["failing_since"],
        failure=row["failure"],
    )
