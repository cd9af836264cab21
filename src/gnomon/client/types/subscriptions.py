"""Subscriptions: who is told of which events."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from gnomon.model.insight.severity import Severity
from gnomon.model.tasks.lifecycle import Status


class SubscriptionSpec(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A subscription to be made. `channel` is like `{"type": "slack", "url": ...}`; without one,
    the channel that it has stays."""

    channel: dict[str, Any] | None = None
    kinds: Sequence[str] = ("*",)
    severity: Severity = Severity.WARNING  # the least
    task_types: Sequence[str] = ()
    tags: Sequence[str] = ()
    cron_jobs: Sequence[str] = ()
    quiet_hours: dict[str, Any] | None = None
    digest_seconds: float = 300.0
    resolve_seconds: float = 900.0
    all_tenants: bool = False
    enabled: bool = True


class ChannelInfo(msgspec.Struct):
    """A channel without its secrets."""

    type: str
    to: str
    confirmed: bool | None  # None: it needs no consent


class QuietHoursInfo(msgspec.Struct, kw_only=True):
    """A part of each day in which nothing is told."""

    start: str
    end: str
    timezone: str = "UTC"
    errors_through: bool = False


class ConfirmationInfo(msgspec.Struct):
    """The subscription whose address was confirmed."""

    name: str


class SubscriptionInfo(msgspec.Struct, kw_only=True):
    """A subscription, and how it fares."""

    name: str
    channel: ChannelInfo
    kinds: list[str]
    severity: Severity
    task_types: list[str]
    tags: list[str]
    cron_jobs: list[str]
    quiet_hours: QuietHoursInfo | None
    digest_seconds: float
    resolve_seconds: float
    all_tenants: bool
    enabled: bool
    muted_until: datetime | None
    failing_since: datetime | None
    failure: str | None
    created_by: str | None
    created_at: datetime


class LoggedNotificationInfo(msgspec.Struct, kw_only=True):
    """A notification of any subscription, as operators see it."""

    notification_id: UUID
    subscription: str | None
    tenant: str | None  # that it is sent for
    status: Status
    attempt: int
    finished_at: datetime | None
    error: str | None


class NotificationInfo(msgspec.Struct, kw_only=True):
    """A notification on its way, or at its end, and what the receiver answered."""

    notification_id: UUID
    status: Status
    attempt: int
    finished_at: datetime | None
    error: str | None
    response_status: int | None
    response_body: str | None
