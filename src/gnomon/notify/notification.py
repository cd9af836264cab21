"""Notifications: what is sent, as a document that every channel makes its own text of. Pure."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec

from gnomon.limits.limiter import Limiter
from gnomon.model.fleet.tenant import EXECUTIONS_PER_MINUTE
from gnomon.notify.grouping import Gathered, GroupState, ToldGroup
from gnomon.notify.subscription import Subscription

# The tenant of all notifications. No tenant can have this name, so nobody can be its principal.
NOTIFIER_TENANT = "_notifications"
NOTIFICATION_TYPE = "gnomon.notification"
MOST_SHOWN = 50  # groups in a notification; the rest is a number
EVENT_TYPE = "gnomon.notification"  # of CloudEvents
# What starts of one subscription within a minute: named as the quota of that kind, which nodes know
# although no limiter of it is stored.
CHANNEL_LIMIT = Limiter(
    tenant_id=NOTIFIER_TENANT,
    name=EXECUTIONS_PER_MINUTE,
    key="/subscription_id",
    rate=30,
    per_seconds=60.0,
)


class Purpose(StrEnum):
    """Why a notification is sent."""

    EVENTS = "events"
    TEST = "test"
    CONFIRMATION = "confirmation"  # of an e-mail address
    HEARTBEAT = "heartbeat"


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of the task that sends it."""

    subscription_id: UUID | None  # None: a heartbeat, which is of no subscription
    subscription: str
    tenant: str | None  # None: of the installation
    purpose: Purpose
    at: datetime
    sequence: int = 0
    groups: list[ToldGroup] = []
    more_groups: int = 0
    token: str | None = None  # that confirms an address
    expires_at: datetime | None = None  # of the token

    @property
    def status(self) -> str:
        """In one word: `resolved` where all that it tells of is over."""
        if self.purpose is not Purpose.EVENTS:
            return str(self.purpose)
        states = {group.state for group in self.groups}
        if states == {GroupState.RESOLVED}:
            return "resolved"
        return "firing" if GroupState.NEW in states else "digest"


def notification_of(subscription: Subscription, gathered: Gathered) -> Notification:
    """The notification of what has gathered."""
    return Notification(
        subscription_id=subscription.id,
        subscription=subscription.name,
        tenant=subscription.tenant_id,
        purpose=Purpose.EVENTS,
        at=gathered.at,
        sequence=gathered.sequence,
        groups=gathered.groups[:MOST_SHOWN],
        more_groups=max(0, len(gathered.groups) - MOST_SHOWN),
    )


def body_of(notification: Notification, message_id: str) -> bytes:
    """The body of a webhook: a CloudEvent whose data is the notification."""
    owner = "" if notification.tenant is None else f"/tenants/{notification.tenant}"
    shown = msgspec.to_builtins(notification)
    for internal in ("token", "expires_at", "subscription_id"):
        shown.pop(internal)
    event = {
        "specversion": "1.0",
        "id": message_id,
        "type": EVENT_TYPE,
        "source": f"{owner}/subscriptions/{notification.subscription}",
        "time": shown["at"],
        "datacontenttype": "application/json",
        "data": {"status": notification.status, **shown},
    }
    return msgspec.json.encode(event)
