"""Values of the stores of subscriptions and their notifications."""

from datetime import datetime
from uuid import UUID

import msgspec

from gnomon.model.tasks.lifecycle import Status
from gnomon.notify.grouping import Inbox
from gnomon.notify.notification import Notification, Purpose
from gnomon.notify.subscription import Subscription

MOST_RECENT = 20  # notifications of a subscription that are shown
MOST_LOGGED = 100  # of all subscriptions
TOKEN_SECONDS = 24 * 3600.0
MOST_CONFIRMATIONS = 10  # an hour, of a tenant
MOST_TESTS = 5  # of a subscription that have not ended


class SentNotification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification on its way, or at its end."""

    id: UUID
    status: Status
    attempt: int
    finished_at: datetime | None
    error: str | None
    response_status: int | None
    response_body: str | None


class LoggedNotification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification of any subscription, as operators see it."""

    notification_id: UUID
    subscription: str | None
    tenant: str | None  # that it is sent for
    status: Status
    attempt: int
    finished_at: datetime | None
    error: str | None


class NotifierPosition(msgspec.Struct, frozen=True):
    """How far events have been read, and what there is to do."""

    number: int | None  # None: from now on
    is_wanted: bool  # there are subscriptions
    next_at: datetime | None  # when one has to be looked at

    def is_due(self, now: datetime) -> bool:
        return self.next_at is not None and self.next_at <= now


class HeldInbox(msgspec.Struct, kw_only=True):
    """A subscription with its inbox, locked."""

    subscription: Subscription
    inbox: Inbox
    next_at: datetime | None = None


class InboxChange(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of an inbox: its new state, and the notification that it made."""

    subscription: Subscription
    inbox: Inbox
    next_at: datetime | None
    notification: Notification | None = None


class FailedNotification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification that could not be sent."""

    id: UUID
    error: str | None
    at: datetime
    subscription_id: UUID | None  # None: it is gone
    tenant_id: str | None
    name: str | None
    is_first: bool  # since the last that could be
    purpose: str | None  # None: not known

    @property
    def tells(self) -> bool:
        """Whether the subscriber has to be told: a test was watched by whoever wanted it."""
        return self.subscription_id is not None and self.is_first and self.purpose != Purpose.TEST
